module example.com/free

go 1.26.6
