/* idle.h - how much of its time somebody waited for requests. Arithmetic alone: the caller tells the time, in seconds,
 * which never runs backwards. What is before `from` does not count. */
#ifndef AUTOTUNE_IDLE_H
#define AUTOTUNE_IDLE_H

struct idle {
    double from;   /* counted from here on */
    double since;  /* waits since then; below 0: a request is being answered */
    double waited; /* after `from` */
};

static inline double idle_length(const struct idle *idle, double now)
{
    double begin = idle->since > idle->from ? idle->since : idle->from;
    return idle->since >= 0.0 && now > begin ? now - begin : 0.0;
}

static inline void idle_begin(struct idle *idle, double now, double settling)
{
    *idle = (struct idle){.from = now + settling, .since = now};
}

static inline void idle_request(struct idle *idle, double now)
{
    idle->waited += idle_length(idle, now);
    idle->since = -1.0;
}

static inline void idle_reply(struct idle *idle, double now)
{
    idle->since = now;
}

/* the share, 0 to 1; below 0 until one second was counted, since less says nothing */
static inline double idle_share(const struct idle *idle, double now)
{
    return now >= idle->from + 1.0 ? (idle->waited + idle_length(idle, now)) / (now - idle->from) : -1.0;
}

#endif
