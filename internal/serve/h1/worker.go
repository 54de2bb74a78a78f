package h1

import "sync"

// Workers runs what may block on goroutines of its own, at most so many at once; more waits in line. A
// connection submits one thing at a time, so the line is as long as there are connections.
type Workers struct {
	mu     sync.Mutex
	work   sync.Cond
	queue  []func()
	head   int
	most   int
	count  int // goroutines
	free   int // of them waiting for work
	closed bool
	ended  sync.WaitGroup
}

// NewWorkers returns a pool of at most so many goroutines; they start when there is work.
func NewWorkers(most int) *Workers {
	w := &Workers{most: most}
	w.work.L = &w.mu
	return w
}

// submit has f run. Any goroutine. Does not block. f runs even if the pool is being closed.
func (w *Workers) submit(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, f)
	if len(w.queue)-w.head <= w.free {
		w.work.Signal()
	} else if w.count < w.most {
		w.count++
		w.ended.Add(1)
		go w.run()
	}
}

func (w *Workers) run() {
	defer w.ended.Done()
	w.mu.Lock()
	for {
		for w.head == len(w.queue) {
			if w.closed {
				w.mu.Unlock()
				return
			}
			w.free++
			w.work.Wait()
			w.free--
		}
		f := w.queue[w.head]
		w.queue[w.head] = nil
		w.head++
		if w.head == len(w.queue) {
			w.queue, w.head = w.queue[:0], 0
		} else if w.head > 1024 && w.head*2 > len(w.queue) {
			w.queue, w.head = append(w.queue[:0], w.queue[w.head:]...), 0
		}
		w.mu.Unlock()
		f()
		w.mu.Lock()
	}
}

// Close ends the pool. The channel it returns is closed when the last piece of work is done.
func (w *Workers) Close() <-chan struct{} {
	w.mu.Lock()
	w.closed = true
	w.work.Broadcast()
	w.mu.Unlock()
	done := make(chan struct{})
	go func() {
		w.ended.Wait()
		close(done)
	}()
	return done
}
