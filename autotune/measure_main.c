/* measure_main.c - attune-measure: runs candidates on a device for the library that started it.
 *
 * `attune-measure --serve` leads a process group of its own and ends when its stdin does, in the middle of a candidate
 * too. The protocol has descriptors to itself: what candidates, drivers or sanitizers print to stdout goes to stderr.
 */
#include "autotune/measurer.h"
#include "base/thread.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *watch_input(void *argument)
{
    const int *input = argument;
    struct pollfd file = {*input, 0, 0}; /* only the hang-up counts */
    while (poll(&file, 1, -1) <= 0 || (file.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0) {
    }
    _exit(0);
}

int main(int count, char **arguments)
{
    static int input; /* the watching thread's for as long as the process lives */
    pthread_t watcher;
    if (count != 2 || strcmp(arguments[1], "--serve") != 0) {
        fprintf(stderr, "attune-measure runs candidates for `attune tune` and `attune verify`, which start it "
                        "themselves; it speaks a protocol of its own on stdin and stdout.\n");
        return 2;
    }
    input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input < 0 || output < 0 || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        fprintf(stderr, "attune-measure: no descriptors for its protocol\n");
        return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* the end of our stdin ends us */
    thread_usual_stack();
    if (!thread_start(&watcher, watch_input, &input)) {
        fprintf(stderr, "attune-measure: no thread to watch its stdin\n");
        return 1;
    }
    return measurer_serve(input, output, NULL);
}
