# Makes this tree the CANN toolkit of the shell that sources it: `. set_env.sh` in sh, bash or zsh. The tree may be moved.
# `ferry run -- program` sets the same for one program.

# The path of this file: bash and zsh tell it.
_ferry_file=
if [ -n "${BASH_VERSION:-}" ]; then
    _ferry_file=$BASH_SOURCE
elif [ -n "${ZSH_VERSION:-}" ]; then
    eval '_ferry_file=${(%):-%x}'
fi
# Others (dash) do not, and zsh changes letters that are none in the locale; but a shell has a file open while it reads it. It is the
# parent of a program that it starts, in a subshell too, and that program has none of its options.
if [ ! -e "$_ferry_file" ]; then
    _ferry_file=$(exec sh -c '
        file= last=0
        for fd in /proc/$PPID/fd/*; do
            link=$(readlink "$fd") || continue
            case $link in
                */set_env.sh)
                    # One script may source another: the one that is read now was opened last.
                    if [ "${fd##*/}" -gt "$last" ]; then
                        last=${fd##*/} file=$link
                    fi ;;
            esac
        done
        printf "%s\n" "$file"')
fi
# A link to it may lie anywhere.
if [ -L "$_ferry_file" ]; then
    _ferry_file=$(readlink -f -- "$_ferry_file")
fi
case $_ferry_file in
    */*) ;;
    *) _ferry_file=./$_ferry_file ;;
esac
_ferry_home=$(CDPATH= cd -- "${_ferry_file%/*}" >/dev/null && pwd) || _ferry_home=
unset _ferry_file
# A copy may lie one folder up, beside a tree that is called latest.
if [ ! -f "$_ferry_home/share/ferry/files" ] && [ -f "$_ferry_home/latest/share/ferry/files" ]; then
    _ferry_home=$_ferry_home/latest
fi
if [ ! -f "$_ferry_home/share/ferry/files" ]; then
    echo "set_env.sh: cannot tell which folder it is in: source it by its path, in sh, bash or zsh" >&2
    unset _ferry_home
    return 1
fi
case $_ferry_home in
    *:*)
        echo "set_env.sh: $_ferry_home has a colon in its name, which lists such as PATH cannot hold" >&2
        unset _ferry_home
        return 1 ;;
    *\;*)
        echo "set_env.sh: $_ferry_home has a semicolon in its name, at which the loader splits LD_LIBRARY_PATH" >&2
        unset _ferry_home
        return 1 ;;
esac

# Puts folders in front of a list, unless they are there.
_ferry_before() {
    eval "_ferry_old=\${$1:-}"
    _ferry_name=$1
    _ferry_new=
    shift
    for _ferry_folder do
        _ferry_new=$_ferry_new${_ferry_new:+:}$_ferry_folder
    done
    case "${_ferry_old}:" in
        "$_ferry_new":*) ;;
        *) eval "export $_ferry_name=\"\$_ferry_new\${_ferry_old:+:}\$_ferry_old\"" ;;
    esac
    unset _ferry_old _ferry_name _ferry_new _ferry_folder
}

@VARIABLES@
# Programs that read this one look for `latest` below it.
case $_ferry_home in
    */latest) export ASCEND_CUSTOM_PATH="${_ferry_home%/latest}" ;;
esac
unset -f _ferry_before
unset _ferry_home
