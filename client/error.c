#include "client/error.h"

#include <string.h>

_Static_assert(FUSIOND_ERROR_TEXT == ERROR_TEXT, "an error's text fits");
_Static_assert(FUSIOND_INVALID_FIELD == (int)STATUS_INVALID_FIELD, "errors.def");
_Static_assert(FUSIOND_UNKNOWN_FIELD == (int)STATUS_UNKNOWN_FIELD, "errors.def");
_Static_assert(FUSIOND_NOT_FOUND == (int)STATUS_NOT_FOUND, "errors.def");
_Static_assert(FUSIOND_CANCELLED == (int)STATUS_CANCELLED, "errors.def");
_Static_assert(FUSIOND_COMPILE_FAILED == (int)STATUS_COMPILE_FAILED, "errors.def");
_Static_assert(FUSIOND_TIMEOUT == (int)STATUS_TIMEOUT, "errors.def");
_Static_assert(FUSIOND_COMPILER_UNAVAILABLE == (int)STATUS_COMPILER_UNAVAILABLE, "errors.def");
_Static_assert(FUSIOND_NO_DEVICE == (int)STATUS_NO_DEVICE, "errors.def");
_Static_assert(FUSIOND_EXECUTOR_UNAVAILABLE == (int)STATUS_EXECUTOR_UNAVAILABLE, "errors.def");
_Static_assert(FUSIOND_EXECUTOR_RESET == (int)STATUS_EXECUTOR_RESET, "errors.def");
_Static_assert(FUSIOND_LAUNCH_FAILED == (int)STATUS_LAUNCH_FAILED, "errors.def");
_Static_assert(FUSIOND_INVALID_BUFFER == (int)STATUS_INVALID_BUFFER, "errors.def");
_Static_assert(FUSIOND_INVALID_LAUNCH == (int)STATUS_INVALID_LAUNCH, "errors.def");
_Static_assert(FUSIOND_UNREACHABLE == (int)STATUS_UNREACHABLE, "errors.def");
_Static_assert(FUSIOND_DISCONNECTED == (int)STATUS_DISCONNECTED, "errors.def");
_Static_assert(FUSIOND_INVALID_FILE == (int)STATUS_INVALID_FILE, "errors.def");
_Static_assert(FUSIOND_NO_DRIVER == (int)STATUS_NO_DRIVER, "errors.def");

int error_export(int result, const struct error *error, struct fusiond_error *ret)
{
    if (result >= 0 || !ret)
        return result;
    ret->code = (int)error->code;
    ret->name = status_name(error->code);
    ret->retryable = status_retryable(error->code);
    memcpy(ret->text, error->text, sizeof ret->text);
    return result;
}
