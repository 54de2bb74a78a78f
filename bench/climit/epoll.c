/* The C limit with epoll: one receive and one send for each request. */
#include "answers.h"
#include <sys/epoll.h>

/* The part of an answer that the kernel has not taken yet, by descriptor. */
static struct answer rest[MAX_CONNECTIONS];
static char last[MAX_CONNECTIONS]; /* close after it */

static void push(int fd)
{
	ssize_t n = send(fd, rest[fd].bytes, rest[fd].length, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0) {
		rest[fd].bytes += n;
		rest[fd].length -= n;
	} else if (n < 0 && errno != EAGAIN) {
		rest[fd].length = 0;
		last[fd] = 1;
	}
	if (last[fd] && !rest[fd].length)
		close(fd);
}

static void serve(int fd)
{
	static char b[REQUEST_MAX];
	ssize_t n = recv(fd, b, sizeof b, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	const struct answer *a = answer_to(b, n);
	if (!a) {
		close(fd);
		return;
	}
	rest[fd] = *a;
	last[fd] = says_close(b, n);
	push(fd);
}

int main(int argc, char **argv)
{
	static struct epoll_event events[512];
	int listener = start(argc - 1, argv + 1, SOCK_NONBLOCK), ep = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
	epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e);
	for (;;) {
		int n = epoll_wait(ep, events, 512, -1);
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;
			if (fd != listener) {
				if (rest[fd].length)
					push(fd); /* edge-triggered: the next request comes with an edge of its own */
				else if (events[i].events & EPOLLIN)
					serve(fd);
				continue;
			}
			while ((fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
				if (fd >= MAX_CONNECTIONS) {
					close(fd);
					continue;
				}
				e = (struct epoll_event){.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd};
				epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
			}
		}
	}
}
