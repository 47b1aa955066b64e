#include "daemon/compile/budget.h"

#include "daemon/base/require.h"

void budget_init(struct budget *budget, unsigned limit)
{
    *budget = (struct budget){.limit = limit};
    list_init(&budget->members);
}

void budget_join(struct budget *budget, struct budget_member *member)
{
    member->budget = budget;
    member->held = 0;
    member->wants = false;
    list_push(&budget->members, &member->link);
}

void budget_leave(struct budget_member *member)
{
    require(member->held == 0);
    list_remove(&member->link);
}

bool budget_take(struct budget_member *member)
{
    struct budget *budget = member->budget;
    member->wants = budget->used >= budget->limit;
    if (!member->wants) {
        budget->used++;
        member->held++;
        list_remove(&member->link);
        list_push(&budget->members, &member->link);
        return true;
    }
    for (struct list *link = budget->members.next; link != &budget->members; link = link->next) {
        struct budget_member *other = container_of(link, struct budget_member, link);
        if (other != member && other->held > 0 && other->let_go(other))
            break;
    }
    return false;
}

/* Who has nothing comes first; else who took one longest ago. */
static struct budget_member *next_in_need(struct budget *budget)
{
    struct budget_member *found = NULL;
    for (struct list *link = budget->members.next; link != &budget->members; link = link->next) {
        struct budget_member *member = container_of(link, struct budget_member, link);
        if (member->wants && (!found || (member->held == 0 && found->held > 0)))
            found = member;
    }
    return found;
}

void budget_give(struct budget_member *member)
{
    struct budget *budget = member->budget;
    require(budget->used > 0 && member->held > 0);
    budget->used--;
    member->held--;
    struct budget_member *next;
    /* One that has no work any more takes nothing; then the next one is asked. */
    while (budget->used < budget->limit && (next = next_in_need(budget))) {
        next->wants = false;
        next->on_room(next);
    }
}

void budget_forget(struct budget_member *member)
{
    member->wants = false;
}

bool budget_is_needed(const struct budget_member *member)
{
    const struct budget *budget = member->budget;
    if (budget->used < budget->limit)
        return false;
    for (const struct list *link = budget->members.next; link != &budget->members; link = link->next) {
        const struct budget_member *other = container_of(link, const struct budget_member, link);
        if (other != member && other->wants && other->held == 0)
            return true;
    }
    return false;
}
