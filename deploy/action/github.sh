# shellcheck shell=bash
# How the script talks to GitHub: one call, what its answer means, and how long to wait.
#
# The token goes to curl by standard input, so that it is in no process's arguments and in no file.
# Set by whoever sources this: `api`, `token`, `work` (a folder of ours), `deadline` (in seconds).
# shellcheck disable=SC2154

# One call, at most 30 seconds of it. Leaves the HTTP status in `status` (000: no answer), the
# answer in $work/body and its headers in $work/headers.
# Usage: call METHOD PATH [BODY-FILE] [ETAG]
call() {
  local method=$1 path=$2 body=${3-} etag=${4-} scheme=${api%%:*}
  local options=(
    --disable --silent --show-error --proto "=$scheme" --location --max-redirs 3 --proto-redir "=$scheme"
    --connect-timeout 10 --max-time 30 --request "$method" --config -
    --header 'accept: application/vnd.github+json' --header 'x-github-api-version: 2022-11-28'
    --header 'user-agent: the-deployer-action' --dump-header "$work/headers" --output "$work/body"
    --write-out '%{http_code}'
  )
  [[ -z $body ]] || options+=(--header 'content-type: application/json' --data-binary "@$body")
  [[ -z $etag ]] || options+=(--header "if-none-match: $etag")
  : >"$work/body"
  : >"$work/headers"
  status=$(printf 'header = "authorization: Bearer %s"\n' "$token" |
    curl "${options[@]}" "$api/$path" 2>"$work/problem") || status=000
  [[ $status =~ ^[0-9]{3}$ ]] || status=000
}

# A header of the last answer; after a redirect the last one counts.
header() {
  tr -d '\r' <"$work/headers" | awk -v name="$1" \
    'tolower(substr($0, 1, index($0, ":") - 1)) == name { value = $0; sub(/^[^:]*: */, "", value) }
     END { print value }'
}

now() { date +%s; }

# Where the last answer says "later": how many seconds, in `pause`. Otherwise it says no.
asks_to_wait() {
  [[ $status == 403 || $status == 429 ]] || return 1
  local after remaining reset
  after=$(header retry-after)
  remaining=$(header x-ratelimit-remaining)
  reset=$(header x-ratelimit-reset)
  if [[ $after =~ ^[0-9]{1,6}$ ]]; then
    pause=$((10#$after + 1))
  elif [[ $remaining == 0 && $reset =~ ^[0-9]{1,12}$ ]]; then
    pause=$((10#$reset - $(now) + 1))
  elif [[ $status == 429 ]] || grep -qi 'secondary rate limit' "$work/body"; then
    pause=60
  else
    return 1
  fi
  ((pause > 0)) || pause=1
}

# Sleeps, unless that would be longer than there is time.
rest() {
  (($(now) + $1 < deadline)) || return 1
  sleep "$1"
}

# GitHub's own words about a failure, on one line, or curl's.
words() {
  local said=''
  if [[ $status == 000 ]]; then
    said=$(head -c 300 "$work/problem")
  else
    said=$(jq -r '[.message, (.errors? // [] | .[]? | if type == "object" then .message // empty else . end)]
      | map(select(type == "string")) | join("; ")' "$work/body" 2>/dev/null | head -c 500) || said=''
  fi
  plain "${said:-no words}"
}

# Text of others on one line, without what a runner could take for a command in the middle of one.
plain() {
  local text command='##[' harmless='## ['
  text=$(printf '%s' "$1" | LC_ALL=C tr '\000-\037\177' ' ')
  printf '%s' "${text//"$command"/$harmless}"
}

# What to do about a status that is no success.
remedy() {
  case $status in
    000) echo "GitHub cannot be reached: is \`api-url\` right, and may this runner reach it?" ;;
    401) echo "the token is not accepted, or has ended: give another as \`token\`" ;;
    403) echo "the token may not: let the job have \`permissions: {deployments: write}\`" ;;
    404) echo "the repository is not there for this token: let it see it, with \`deployments: write\`" ;;
    409) echo "a check of \`required-contexts\` is not green on this commit: wait for it, or ask for others" ;;
    422) echo "GitHub does not take it: is \`ref\` a pushed commit, branch or tag?" ;;
    5*) echo "GitHub has a fault; see githubstatus.com, and run the job again" ;;
    *) echo "see what GitHub says" ;;
  esac
}
