module overhead.invalid/httpkv

go 1.22
