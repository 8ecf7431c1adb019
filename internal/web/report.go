package web

type reportInfo struct{}
