package disclosure

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// WriteCSV writes slot records or seconds as comma-separated values, one column per key, names first.
func WriteCSV[T SlotRecord | Second](w io.Writer, records []T) error {
	c := csv.NewWriter(w)
	t := reflect.TypeFor[T]()
	row := make([]string, t.NumField())
	for i := range row {
		row[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	if err := c.Write(row); err != nil {
		return err
	}
	for i := range records {
		v := reflect.ValueOf(&records[i]).Elem()
		for j := range row {
			row[j] = fmt.Sprint(v.Field(j).Interface())
		}
		if err := c.Write(row); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
