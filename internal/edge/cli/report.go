package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/drive/record"
	"tidemark.dev/internal/edge/render"
	"tidemark.dev/internal/ground/binlog"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/accesslog"
)

func (t *tool) report() *cobra.Command {
	c := &cobra.Command{Use: "report", Short: "draw and check results"}
	var format, out string
	draw := &cobra.Command{
		Use: "render RESULT", Short: "draw a result folder or result.json", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := disclosure.Load(args[0])
			if err != nil {
				return fault.Wrap(fault.Config, err, args[0])
			}
			if out == "" {
				return fault.Wrap(fault.Config, render.Write(t.Stdout, format, d), args[0])
			}
			w, err := os.Create(out)
			if err != nil {
				return fault.Wrap(fault.Config, err, "report")
			}
			err = render.Write(w, format, d)
			if closeErr := w.Close(); err == nil {
				err = closeErr
			}
			return fault.Wrap(fault.Config, err, out)
		},
	}
	draw.Flags().StringVar(&format, "format", "text", strings.Join(render.Formats(), ", "))
	draw.Flags().StringVarP(&out, "output", "o", "", "file to write instead of standard output")
	check := &cobra.Command{
		Use: "check RESULT", Short: "judge a saved result again from its records", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return t.checkReport(args[0]) },
	}
	c.AddCommand(draw, check)
	return c
}

func (t *tool) checkReport(path string) error {
	d, err := disclosure.Load(path)
	if err != nil {
		return fault.Wrap(fault.Config, err, path)
	}
	dir := path
	if st, err := os.Stat(path); err == nil && !st.IsDir() {
		dir = filepath.Dir(path)
	}
	wrong := disclosure.Check(d)
	var slots []disclosure.SlotRecord
	if len(d.Iterations) > 0 {
		r, err := os.Open(filepath.Join(dir, disclosure.SlotsFile))
		if err != nil {
			return fault.Wrap(fault.Config, err, "records")
		}
		defer r.Close()
		slots, err = disclosure.ReadSlots(r, 0)
		if errors.Is(err, disclosure.ErrTorn) { // a run that is killed while it writes; what it had written counts
			fmt.Fprintf(t.Stdout, "%s: %v\n", disclosure.SlotsFile, err)
		} else if err != nil {
			return fault.Wrap(fault.Config, err, "records")
		}
	}
	for _, w := range wrong {
		fmt.Fprintln(t.Stdout, w)
	}
	differences := record.Recheck(d, slots)
	for _, x := range differences {
		fmt.Fprintf(t.Stdout, "iteration %d: %s is %s in the document, %s from the records\n", x.Iteration, x.Key, x.Saved, x.Computed)
	}
	if len(wrong)+len(differences) > 0 {
		return exit{exitFails}
	}
	fmt.Fprintf(t.Stdout, "%s: %d iterations judged again from %d slot records: every verdict holds\n", path, len(d.Iterations), len(slots))
	if d.State != disclosure.Complete {
		fmt.Fprintf(t.Stdout, "the document is partial (%s)\n", d.State)
	}
	return nil
}

func (t *tool) log() *cobra.Command {
	c := &cobra.Command{Use: "log", Short: "read binary access logs"}
	var combined bool
	cat := &cobra.Command{
		Use: "cat FILE...", Short: "print a binary access log in the Common Log Format", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			w := bufio.NewWriterSize(t.Stdout, 256<<10)
			for _, name := range args {
				if err := t.catLog(w, name, combined); err != nil {
					return err
				}
			}
			return fault.Wrap(fault.Config, w.Flush(), "standard output")
		},
	}
	cat.Flags().BoolVar(&combined, "combined", false, "with referer and user agent")
	c.AddCommand(cat)
	return c
}

func (t *tool) catLog(w *bufio.Writer, name string, combined bool) error {
	f, err := os.Open(name)
	if err != nil {
		return fault.Wrap(fault.Config, err, "log")
	}
	defer f.Close()
	r := binlog.NewReader(f)
	var rec binlog.Record
	var line []byte
	for {
		err := r.Next(&rec)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fault.Wrap(fault.Config, err, name)
		}
		_, offset := time.Unix(0, rec.Time).Zone()
		if combined {
			line = accesslog.AppendCombined(line[:0], &rec, time.Duration(offset)*time.Second)
		} else {
			line = accesslog.AppendCLF(line[:0], &rec, time.Duration(offset)*time.Second)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return fault.Wrap(fault.Config, err, "standard output")
		}
	}
	if loss := r.Loss(); loss.Gaps > 0 {
		t.say("%s: %d damaged places, %d bytes left out (%d of them a torn end)", name, loss.Gaps, loss.Bytes, loss.Tail)
	}
	return nil
}
