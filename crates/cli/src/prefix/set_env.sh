# Makes this tree the CANN toolkit of the shell that sources it: `. set_env.sh` in sh, bash or zsh. The tree may be moved.
# `ferry run -- program` sets the same for one program.

# The path of this file: bash and zsh tell it. Others (dash) do not, but have it open while they read it.
_ferry_file=
if [ -n "${BASH_VERSION:-}" ]; then
    _ferry_file=$BASH_SOURCE
elif [ -n "${ZSH_VERSION:-}" ]; then
    eval '_ferry_file=${(%):-%x}'
else
    # In a subshell $$ is another process: the parent of a program that the shell starts is itself.
    _ferry_last=0
    for _ferry_fd in /proc/"$(exec sh -c 'echo $PPID')"/fd/*; do
        _ferry_link=$(readlink "$_ferry_fd") || continue
        case $_ferry_link in
            */set_env.sh)
                # One script may source another: the one that is read now was opened last.
                if [ "${_ferry_fd##*/}" -gt "$_ferry_last" ]; then
                    _ferry_last=${_ferry_fd##*/}
                    _ferry_file=$_ferry_link
                fi ;;
        esac
    done
    unset _ferry_fd _ferry_link _ferry_last
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
