module github.com/talos-provision/provision/tools/licences

go 1.26.6

require github.com/google/licensecheck v0.3.1
