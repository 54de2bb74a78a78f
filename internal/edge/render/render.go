// Package render draws a result document for people: as the classic result page, as a self-contained HTML page,
// as Markdown, or as the document itself.
//
// Call Write with a format name, or one of Text, HTML, Markdown and JSON. Output is a function of the document
// alone: no clock, no version of the renderer, no network.
//
// The package judges nothing and computes no figure the document does not hold.
package render

import (
	"fmt"
	"io"

	"tidemark.dev/disclosure"
)

// Formats lists the names Write knows.
func Formats() []string { return []string{"text", "html", "json", "md"} }

// Write draws d in a format of Formats.
func Write(w io.Writer, format string, d *disclosure.Document) error {
	switch format {
	case "text":
		return Text(w, d)
	case "html":
		return HTML(w, d)
	case "json":
		return JSON(w, d)
	case "md":
		return Markdown(w, d)
	}
	return fmt.Errorf("format %q: not one of text, html, json, md", format)
}

// JSON writes the document.
func JSON(w io.Writer, d *disclosure.Document) error { return disclosure.Write(w, d) }
