module example.com/program

go 1.26.6

require (
	example.com/copyleft v1.0.0
	example.com/free v1.0.0
	example.com/own v1.0.0
	example.com/silent v1.0.0
)

replace (
	example.com/copyleft => ./copyleft
	example.com/free => ./free
	example.com/own => ./own
	example.com/silent => ./silent
)
