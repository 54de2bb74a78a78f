package render

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "write pictures of the pages into this folder")

// In a real browser the page fits a phone and a desk without sideways scrolling, in both colour schemes and in print,
// and no text in a plot leaves its picture.
func TestPageInBrowser(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no Chromium in the path")
	}
	if testing.Short() {
		t.Skip("starts a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	ctx, cancel := chromedp.NewContext(alloc)
	defer cancel()
	ctx, cancelTime := context.WithTimeout(ctx, 5*time.Minute)
	defer cancelTime()
	dir := t.TempDir()
	for _, name := range []string{"quick", "slow", "doomed"} {
		file := filepath.Join(dir, name+".html")
		if err := os.WriteFile(file, draw(t, HTML, fixture(t, name)), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, view := range []struct {
			width  int64
			scheme string
			media  string
		}{{1280, "light", "screen"}, {1280, "dark", "screen"}, {400, "light", "screen"}, {400, "dark", "screen"}, {680, "light", "print"}} {
			t.Run(fmt.Sprintf("%s/%d/%s/%s", name, view.width, view.scheme, view.media), func(t *testing.T) {
				emulate := chromedp.Action[chromedp.Void](func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
					p := emulation.SetEmulatedMediaParams{Media: view.media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: view.scheme}}}
					_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, p)
					return chromedp.Void{}, err
				})
				if err := chromedp.Do(ctx, chromedp.EmulateViewport(view.width, 900), emulate, chromedp.Navigate("file://"+file)); err != nil {
					t.Fatal(err)
				}
				over, err := chromedp.Run(ctx, chromedp.Evaluate[int]("document.documentElement.scrollWidth - window.innerWidth"))
				if err != nil {
					t.Fatal(err)
				}
				if over > 0 {
					t.Errorf("the page is %d px wider than the window", over)
				}
				outside, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll("figure svg text")].filter(e => {
					const r = e.getBoundingClientRect(), s = e.closest("figure").getBoundingClientRect();
					return r.left < s.left - 3 || r.right > s.right + 3 || r.top < s.top - 3 || r.bottom > s.bottom + 3;
				}).map(e => e.closest("figure").id + ": " + e.textContent)`))
				if err != nil {
					t.Fatal(err)
				}
				if len(outside) > 0 {
					t.Errorf("text outside its plot: %q", outside)
				}
				if *shots != "" {
					b, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(*shots, fmt.Sprintf("%s-%d-%s-%s.png", name, view.width, view.scheme, view.media)), b, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}
