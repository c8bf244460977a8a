# SPDX-License-Identifier: Apache-2.0
# cache.bash - where tests keep what takes long to make, outside of this repository.

# cache_dir NAME
cache_dir() {
	if ((EUID == 0)); then
		echo "/var/cache/$1"
	else
		echo "${XDG_CACHE_HOME:-$HOME/.cache}/$1"
	fi
}
