// Remaining rate limits as headers of a response.
import type { RateFigures } from "../../quotas/rate-meter.ts";

/** Appends header names and values alternately, in OpenAI's format. */
export function writeRateHeaders(to: string[], figures: RateFigures): void {
  const { requestLimit, requestsLeft, requestResetSeconds, tokenLimit, tokensLeft, tokenResetSeconds } = figures;
  to.push(
    "x-ratelimit-limit-requests",
    String(requestLimit),
    "x-ratelimit-limit-tokens",
    String(tokenLimit),
    "x-ratelimit-remaining-requests",
    String(requestsLeft),
    "x-ratelimit-remaining-tokens",
    String(tokensLeft),
    "x-ratelimit-reset-requests",
    durationText(requestResetSeconds),
    "x-ratelimit-reset-tokens",
    durationText(tokenResetSeconds),
  );
}

/** The same in Anthropic's format, with times in RFC 3339. */
export function writeMessagesRateHeaders(to: string[], figures: RateFigures, nowMs: number): void {
  const { requestLimit, requestsLeft, requestResetSeconds, tokenLimit, tokensLeft, tokenResetSeconds } = figures;
  const timeIn = (seconds: number) => timeText(Math.floor(nowMs / 1000 + seconds));
  to.push(
    "anthropic-ratelimit-requests-limit",
    String(requestLimit),
    "anthropic-ratelimit-requests-remaining",
    String(requestsLeft),
    "anthropic-ratelimit-requests-reset",
    timeIn(requestResetSeconds),
    "anthropic-ratelimit-tokens-limit",
    String(tokenLimit),
    "anthropic-ratelimit-tokens-remaining",
    String(tokensLeft),
    "anthropic-ratelimit-tokens-reset",
    timeIn(tokenResetSeconds),
  );
}

/** Formats as "1s" or "1m0s". */
function durationText(seconds: number): string {
  return seconds < 60 ? `${seconds}s` : "1m0s";
}

/** The text of this minute and of the next, in which the two limits may reset. By the parity of the minute. */
const minutes = [0, 1].map(() => ({ at: Number.NaN, text: "" }));

/** Formats Unix seconds by RFC 3339. Keeps the texts of minutes: formatting all of it takes as long as the other headers together. */
function timeText(seconds: number): string {
  const at = Math.floor(seconds / 60);
  const minute = minutes[at % 2] as (typeof minutes)[number];
  if (at !== minute.at) {
    minute.at = at;
    minute.text = new Date(at * 60_000).toISOString().slice(0, 17);
  }
  return `${minute.text}${String(seconds % 60).padStart(2, "0")}Z`;
}
