#include "daemon/base/list.h"

#include <criterion/criterion.h>

struct item {
    int number;
    struct list link;
};

Test(list, order_is_that_of_pushing)
{
    struct list head;
    struct item items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    list_init(&head);
    cr_assert(list_empty(&head));
    cr_assert_null(list_pop(&head));
    for (int i = 0; i < 3; i++)
        list_push(&head, &items[i].link);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(container_of(list_pop(&head), struct item, link)->number, i);
    cr_assert(list_empty(&head));
}

Test(list, removing_from_the_middle_and_twice)
{
    struct list head;
    struct item items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    list_init(&head);
    for (int i = 0; i < 3; i++)
        list_push(&head, &items[i].link);
    list_remove(&items[1].link);
    list_remove(&items[1].link);
    cr_assert(list_empty(&items[1].link), "an unlinked link points to itself");
    cr_assert_eq(list_pop(&head), &items[0].link);
    cr_assert(list_empty(&items[0].link), "and so does a popped one");
    cr_assert_eq(list_pop(&head), &items[2].link);
    cr_assert_null(list_pop(&head));
}
