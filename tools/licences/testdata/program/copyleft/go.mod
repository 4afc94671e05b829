module example.com/copyleft

go 1.26.6
