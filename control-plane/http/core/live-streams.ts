// Live figures as server-sent events. A stream ends when its credential does, after some minutes (the client then connects again), when
// its client reads nothing, and when this control plane stops.
import { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import { notAdmin } from "../../accounts/errors.ts";
import type { Members } from "../../accounts/members.ts";
import { holds } from "../../accounts/permissions.ts";
import type { Sessions } from "../../accounts/sessions.ts";
import type { CallerStanding } from "../../inference/complete.ts";
import { quantile } from "../../series/histogram.ts";
import type { LiveDocument, LiveFeed, LiveScope } from "../../series/live-feed.ts";
import { rateLimited } from "../../service-error.ts";
import { cookieOf } from "../accounts/session.ts";
import type { RequestState } from "./request-state.ts";

export interface LiveStreamLimits {
  readonly maxPerAccount: number;
  readonly maxTotal: number;
  readonly maxMs: number;
  /** Interval of checks of sessions. */
  readonly sessionMs: number;
}

export const liveStreamLimits: LiveStreamLimits = {
  maxPerAccount: 8,
  maxTotal: 1_000,
  maxMs: 600_000,
  sessionMs: 10_000,
};

const maxUnreadBytes = 64 * 1024;

interface LiveStreamDeps {
  readonly feed: LiveFeed;
  readonly sessions: Pick<Sessions, "find">;
  readonly members: Pick<Members, "actAs">;
  /** Undefined: credentials are not checked again. */
  readonly standing: CallerStanding | undefined;
}

export class LiveStreams {
  readonly #deps: LiveStreamDeps;
  readonly #limits: LiveStreamLimits;
  readonly #open = new Set<Readable>();
  readonly #counts = new Map<string, number>();

  constructor(deps: LiveStreamDeps, limits: Partial<LiveStreamLimits> = {}) {
    this.#deps = deps;
    this.#limits = { ...liveStreamLimits, ...limits };
  }

  /** The figures once. Throws notAdmin. */
  async read(state: RequestState, scope: "account" | "fleet" | undefined) {
    return renderLive(await this.#deps.feed.read(scopeOf(state, scope)));
  }

  /** Throws notAdmin, and `too_many_streams`. */
  open(request: FastifyRequest, scope: "account" | "fleet" | undefined): Readable {
    const state = request.state as RequestState;
    const wanted = scopeOf(state, scope);
    const reader = state.credential?.account ?? "";
    const count = this.#counts.get(reader) ?? 0;
    const { maxPerAccount, maxTotal, maxMs } = this.#limits;
    if (count >= maxPerAccount || this.#open.size >= maxTotal)
      throw rateLimited(
        "too_many_streams",
        `At most ${maxPerAccount} streams of live figures may be open. Close one.`,
        {
          retryAfterSeconds: 10,
        },
      );
    this.#counts.set(reader, count + 1);
    const stream = new Readable({ read() {} });
    this.#open.add(stream);
    const end = () => void stream.push(null);
    const isValid = this.#checkOf(request, state);
    const show = (document: LiveDocument) => {
      if (stream.readableEnded || stream.destroyed) return;
      if (stream.readableLength > maxUnreadBytes) {
        stream.destroy();
        return;
      }
      isValid().then(
        (valid) => (valid ? write(stream, document) : end()),
        () => {},
      );
    };
    const stop = this.#deps.feed.subscribe(wanted, show);
    const limit = setTimeout(end, maxMs).unref();
    stream.once("close", () => {
      stop();
      clearTimeout(limit);
      this.#open.delete(stream);
      const left = (this.#counts.get(reader) ?? 1) - 1;
      if (left > 0) this.#counts.set(reader, left);
      else this.#counts.delete(reader);
    });
    stream.push("retry: 2000\n\n");
    this.#deps.feed.read(wanted).then(show, () => {});
    return stream;
  }

  close(): void {
    for (const stream of this.#open) stream.push(null);
  }

  /** Returns false once the credential of the request no longer allows it. Rejects while that cannot be told. */
  #checkOf(request: FastifyRequest, state: RequestState): () => Promise<boolean> {
    const { standing, sessions, members } = this.#deps;
    const { credential, session, caller } = state;
    const needsAdmin = caller?.operator !== undefined || caller?.isAdmin === true;
    let known = credential;
    let since = standing?.now() ?? 0;
    const cookie = session && cookieOf(request);
    let checkedMs = performance.now();
    return async () => {
      if (cookie !== undefined) {
        if (performance.now() - checkedMs < this.#limits.sessionMs) return true;
        const found = await sessions.find(cookie);
        checkedMs = performance.now();
        if (found && caller?.member) {
          const member = await members.actAs(found.caller, caller.account);
          return member !== undefined && holds("read", member);
        }
        return found !== undefined && (found.caller.isAdmin || !needsAdmin);
      }
      if (!standing || !known) return true;
      const now = standing.now();
      try {
        known = await standing.again(known, since, request.ip);
      } catch (error) {
        if (isEnd(error)) return false;
        throw error;
      }
      since = now;
      if (!holds("read", known)) return false;
      return known.isAdmin || !needsAdmin;
    };
  }
}

const isEnd = (error: unknown) =>
  typeof error === "object" &&
  error !== null &&
  "kind" in error &&
  (error.kind === "unauthenticated" || error.kind === "forbidden");

function scopeOf({ caller }: RequestState, scope: "account" | "fleet" | undefined): LiveScope {
  const isAdmin = caller?.isAdmin === true;
  if (scope === "fleet" && !isAdmin) throw notAdmin();
  return (scope ?? (isAdmin ? "fleet" : "account")) === "fleet" ? "" : (caller?.account ?? "");
}

function write(stream: Readable, document: LiveDocument): void {
  if (!stream.readableEnded && !stream.destroyed) stream.push(`data: ${JSON.stringify(renderLive(document))}\n\n`);
}

export function renderLive({ atMs, seconds, requests, errors, outputTokens, firstMs, fleet }: LiveDocument) {
  const first = quantile(firstMs, 0.5);
  return {
    at: Math.round(atMs) / 1000,
    tokens_per_second: outputTokens / seconds,
    time_to_first_token: first === null ? null : Math.round(first) / 1000,
    requests_per_second: requests / seconds,
    errors_per_second: errors / seconds,
    total_tflops: null,
    gpus: fleet?.gpus ?? null,
    gpus_held: fleet?.gpusHeld ?? null,
    gpu_use_ratio: fleet?.gpuUse ?? null,
    gpu_memory_used_bytes: fleet?.gpuMemoryUsed ?? null,
    gpu_memory_total_bytes: fleet?.gpuMemoryTotal ?? null,
    gpu_power_watts: fleet?.gpuPowerWatts ?? null,
    running_requests: fleet?.running ?? null,
    waiting_requests: fleet?.waiting ?? null,
  };
}
