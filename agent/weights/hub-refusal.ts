import type { WebAnswer } from "./web.ts";
import { WeightsError, type WeightsErrorCode } from "./weights-error.ts";

export interface Asked {
  readonly repo: string;
  readonly revision: string;
  readonly file: string | undefined;
  readonly hasToken: boolean;
}

/** Returns the delay that a reply requests; undefined without one. */
export function retryAfterMs(answer: Pick<WebAnswer, "status" | "header">): number | undefined {
  const wait = answer.header("retry-after");
  const isAsked = answer.status === 429 || answer.status === 408 || answer.status === 503;
  return isAsked && wait !== undefined && /^\d{1,5}$/.test(wait) ? Number(wait) * 1000 : undefined;
}

/** Converts a hub's refusal to an error for the deployment; `X-Error-Code`, if present, is more exact than the status. */
export function hubRefusal(answer: Pick<WebAnswer, "status" | "header" | "url">, asked: Asked): WeightsError {
  const { status } = answer;
  const code = answer.header("x-error-code") ?? "";
  const host = answer.url.host;
  if (code === "GatedRepo" || (status === 403 && code === "")) {
    const page = `accept its licence on ${host}`;
    return asked.hasToken
      ? terminal(
          "hub_gated_no_access",
          `The token given may not read ${asked.repo}: ${page} with its account, or give the token of an account that has access, and deploy again.`,
        )
      : terminal(
          "hub_gated_no_token",
          `${asked.repo} is gated and no token was given: ${page}, then deploy again with a token of that account.`,
        );
  }
  if (code === "RevisionNotFound")
    return terminal(
      "hub_revision_not_found",
      `${asked.repo} has no revision ${asked.revision}: name a branch, tag or commit that exists.`,
    );
  if (code === "EntryNotFound")
    return terminal(
      "hub_file_not_found",
      `${asked.repo} has no file ${asked.file ?? ""} at revision ${asked.revision}: name one that its file list shows.`,
    );
  if (code === "RepoNotFound" || status === 401 || status === 403 || status === 404) {
    const hint = asked.hasToken
      ? "or the token given may not see it: check the name (owner/name) and the token"
      : "or it is private and needs a token: check the name (owner/name), or give a token that may read it";
    return terminal("hub_repo_not_found", `${host} shows no repository ${asked.repo}; it does not exist, ${hint}.`);
  }
  if (status === 429 || status === 408) {
    const wait = answer.header("retry-after");
    const when = wait && /^\d{1,5}$/.test(wait) ? ` It asks for ${wait} s of patience.` : "";
    const text = `${host} limits how often this machine may ask (status ${status}).${when} The download is tried again by itself; a token raises the limit.`;
    return new WeightsError("hub_rate_limited", text, { retryable: true });
  }
  const text = `${host} answered ${status} for ${asked.repo}: the fault lies there; the download is tried again by itself.`;
  return new WeightsError("hub_failed", text, { retryable: status >= 500 });
}

function terminal(code: WeightsErrorCode, text: string): WeightsError {
  return new WeightsError(code, text, { retryable: false });
}
