# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2016,SC2034,SC2154 # what ranks read; for tests; what run sets
# Loaded behind launch.bash: a site's program that finds fault with hosts, and the ranks of jobs that do without these.

# site_program: the program for --preflight-hook, ~/hook. bad HOST…: it finds fault with these.
site_program() {
    cat >"$(home)/hook" <<'END'
#!/bin/sh
case " $(cat "$HOME/bad" 2>/dev/null) " in
*" $(hostname) "*) echo looking; echo "no licence on $(hostname)"; exit 3 ;;
esac
END
    chmod 755 "$(home)/hook"
    rm -f "$(home)/bad"
}
bad() { echo "$*" >"$(home)/bad"; }
RANKS='echo "$HOROVOD_RANK $HOROVOD_SIZE $HOROVOD_LOCAL_RANK $HOROVOD_CROSS_RANK $HOROVOD_CROSS_SIZE $RANK $(hostname)"'

# Ranks 0 to 7 are on all hosts but the named one.
eight_without() {
    local host rank=0 want=""
    for host in hvdn1 hvdn2 hvdn3 hvdn4 hvdn5; do
        [[ $host != "$1" ]] || continue
        want+="$rank 8 0 $((rank / 2)) 4 $rank $host"$'\n'
        want+="$((rank + 1)) 8 1 $((rank / 2)) 4 $((rank + 1)) $host"$'\n'
        rank=$((rank + 2))
    done
    [[ $(grep -E '^[0-9]' <<<"$output" | sort -n) == "${want%$'\n'}" ]] || { echo "$output" && return 1; }
}
