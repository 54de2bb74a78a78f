package web99

var tail = []byte(TailText)
