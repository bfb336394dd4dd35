// Client of one repository of a hub: its URLs, its refusals, and one short wait if it sends Retry-After.
import { setTimeout as sleep } from "node:timers/promises";
import { type ByteRange, rangeHeaders } from "./download.ts";
import type { SourceOfKind } from "./source.ts";
import type { Web, WebAnswer, WebRequest } from "./web.ts";
import { WeightsError, type WeightsErrorCode } from "./weights-error.ts";

export type HubClient = ReturnType<typeof createHubClient>;

const setting = "HF_ENDPOINT";
const listLimitBytes = 32 * 1024 * 1024;
/** The reconciler handles longer waits and shows the reason in the meantime. */
const patienceMs = 2_000;

export function createHubClient(web: Web, source: HubSource, options: HubOptions) {
  const token = source.token ?? options.token;
  const authorization = token === undefined ? undefined : `Bearer ${token}`;
  const base = options.endpoint.replace(/\/+$/, "");
  const metadataMs = options.metadataMs ?? 10_000;
  const { repo } = source;
  const asked: Asked = { repo, revision: source.revision, file: source.file, hasToken: token !== undefined };

  async function ask(
    method: "GET" | "HEAD",
    path: string,
    more: Partial<WebRequest> & { readonly file?: string },
    signal: AbortSignal,
  ): Promise<WebAnswer> {
    if (options.isOffline) throw offline(repo);
    const { file, ...rest } = more;
    for (let isSecond = false; ; isSecond = true) {
      const url = new URL(path, `${base}/`);
      const answer = await web.open({ method, url, authorization, follow: "all", setting, ...rest }, signal);
      const isFine = answer.status < 300 || (more.follow === "relative" && answer.status < 400);
      if (isFine || (answer.status === 416 && rest.headers)) return answer;
      answer.body.on("error", () => {}).destroy();
      const waitMs = retryAfterMs(answer);
      if (isSecond || waitMs === undefined || waitMs > patienceMs)
        throw hubRefusal(answer, { ...asked, file: file ?? asked.file });
      await sleep(waitMs, undefined, { signal });
    }
  }

  const fileUrl = (commit: string, path: string): string =>
    `${base}/${repo}/resolve/${encodeURIComponent(commit)}/${path.split("/").map(encodeURIComponent).join("/")}`;

  return {
    base,
    repo,
    revisionUrl: (revision: string) => `${base}/api/models/${repo}/revision/${encodeURIComponent(revision)}`,
    treeUrl: (commit: string) => `${base}/api/models/${repo}/tree/${encodeURIComponent(commit)}?recursive=true`,
    async json(url: string, signal: AbortSignal) {
      const answer = await ask("GET", url, { silenceMs: metadataMs }, signal);
      try {
        return { answer, value: JSON.parse(await web.text(answer, listLimitBytes, 3 * metadataMs)) };
      } catch (error) {
        throw error instanceof WeightsError ? error : notAHub(base);
      }
    },
    /** For a file on another host, returns the hub's own reply, whose headers describe it. */
    async head(revision: string, path: string, signal: AbortSignal) {
      const more = { follow: "relative", silenceMs: metadataMs, file: path } as const;
      const answer = await ask("HEAD", fileUrl(revision, path), more, signal);
      answer.body.on("error", () => {}).resume();
      return answer;
    },
    /** Resolves for 200, 206 or 416. */
    get(commit: string, path: string, range: ByteRange, signal: AbortSignal) {
      const headers = rangeHeaders(range);
      return ask("GET", fileUrl(commit, path), { headers, file: path }, signal);
    },
  };
}

function notAHub(base: string): WeightsError {
  const text = `${new URL(base).host} does not speak the hub protocol: check ${setting}.`;
  return new WeightsError("hub_failed", text, { retryable: false });
}

function offline(repo: string): WeightsError {
  const text = `${repo} is not in this host's cache and HF_HUB_OFFLINE forbids to ask the hub: fetch it beforehand, or unset HF_HUB_OFFLINE.`;
  return new WeightsError("hub_unreachable", text, { retryable: true });
}

export type HubSource = SourceOfKind<"hub">;

export interface HubOptions {
  readonly endpoint: string;
  /** Used if the deployment has no token of its own. */
  readonly token: string | undefined;
  readonly isOffline?: boolean;
  readonly metadataMs?: number;
}

interface Asked {
  readonly repo: string;
  readonly revision: string;
  readonly file: string | undefined;
  readonly hasToken: boolean;
}

/** Returns the delay that a reply requests; undefined without one. */
function retryAfterMs(answer: Pick<WebAnswer, "status" | "header">): number | undefined {
  const wait = answer.header("retry-after");
  const isAsked = answer.status === 429 || answer.status === 408 || answer.status === 503;
  return isAsked && wait !== undefined && /^\d{1,5}$/.test(wait) ? Number(wait) * 1000 : undefined;
}

/** Converts a hub's refusal to an error for the deployment; `X-Error-Code`, if present, is more exact than the status. */
function hubRefusal(answer: Pick<WebAnswer, "status" | "header" | "url">, asked: Asked): WeightsError {
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
    const when = wait && /^\d{1,5}$/.test(wait) ? ` Retry after ${wait} s.` : "";
    const text = `${host} limits how often this machine may ask (status ${status}).${when} The download is tried again by itself; a token raises the limit.`;
    return new WeightsError("hub_rate_limited", text, { retryable: true });
  }
  const text = `${host} answered ${status} for ${asked.repo}: the fault lies there; the download is tried again by itself.`;
  return new WeightsError("hub_failed", text, { retryable: status >= 500 });
}

function terminal(code: WeightsErrorCode, text: string): WeightsError {
  return new WeightsError(code, text, { retryable: false });
}
