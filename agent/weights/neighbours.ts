// Other hosts of the installation, tried before the hub: they are near, and available when the hub is not. A blob is verified by
// its digest. The list of files comes from the hub; only while the hub is unavailable a neighbour's list is used, for the same
// revision, and the hub is asked again later.

import { buildConnector, Pool } from "undici";
import type { PeerOptions } from "../../proto/peer-tls.ts";
import { type DownloadSource, rangeHeaders } from "./download.ts";
import { type Kept, readKept } from "./kept.ts";
import type { Web, WebAnswer } from "./web.ts";
import { WeightsError } from "./weights-error.ts";

interface Neighbour extends NeighbourAddress {
  /** Signed by the control plane for that host, for a short time. */
  readonly ticket: string;
}

/** Hosts that may have files of this repository, the most likely ones first; none while the control plane is unavailable. */
export type AskNeighbours = (repo: string, signal: AbortSignal) => Promise<readonly Neighbour[]>;

export type Neighbourhood = ReturnType<typeof createNeighbourhood>;

export interface BlobHolder {
  source(sha256: string): DownloadSource;
}

const askMs = 2_000;
const silenceMs = 5_000;
const maxAsked = 8;
const setBytes = 4 * 1024 * 1024;

export function createNeighbourhood(web: Web, ways: NeighbourWays, askNeighbours: AskNeighbours) {
  const open = (one: Neighbour, path: string, method: "GET" | "HEAD", more: object, signal: AbortSignal) => {
    const headers = { "x-stoker-ticket": one.ticket, ...more };
    const url = new URL(path, one.origin);
    const asked = {
      method,
      url,
      headers,
      authorization: undefined,
      follow: "relative",
      setting: "",
      silenceMs,
    } as const;
    return web.open({ ...asked, direct: ways.to(one) }, signal);
  };

  /** In the given order, without neighbours that do not reply in time. */
  async function ask<T>(
    repo: string,
    path: string,
    method: "GET" | "HEAD",
    read: (answer: WebAnswer, one: Neighbour) => Promise<T | undefined>,
    signal: AbortSignal,
  ): Promise<readonly T[]> {
    const near = await askNeighbours(repo, signal).catch(() => []);
    const inner = AbortSignal.any([signal, AbortSignal.timeout(askMs)]);
    const answers = near.slice(0, maxAsked).map(async (one) => {
      const answer = await open(one, path, method, {}, inner);
      if (answer.status === 200) return read(answer, one);
      answer.body.on("error", () => {}).destroy();
      return undefined;
    });
    const settled = await Promise.allSettled(answers);
    signal.throwIfAborted();
    return settled.flatMap((one) => (one.status === "fulfilled" && one.value !== undefined ? [one.value] : []));
  }

  return {
    /** Returns a neighbour's list of this set; the key includes the token that it was read with. */
    async recall(key: string, { repo, revision }: Pick<Kept, "repo" | "revision">, signal: AbortSignal) {
      const read = async (answer: WebAnswer) => readKept(await web.text(answer, setBytes, askMs));
      const found = await ask(repo, `/weights/known/${key}`, "GET", read, signal);
      const isPinned = /^[0-9a-f]{40}$/.test(revision);
      return found.find(
        (kept) => kept.repo === repo && kept.revision === revision && (!isPinned || kept.commit === revision),
      );
    },
    holders(sha256: string, repo: string, signal: AbortSignal) {
      const read = async (answer: WebAnswer, one: Neighbour): Promise<BlobHolder> => {
        answer.body.on("error", () => {}).resume();
        return { source: (digest) => sourceOf(one, digest) };
      };
      return ask(repo, `/weights/blobs/${sha256}`, "HEAD", read, signal);
    },
  };

  function sourceOf(one: Neighbour, sha256: string): DownloadSource {
    return {
      name: "peer",
      async open({ from }, signal) {
        const range = rangeHeaders({ from, tag: undefined });
        const answer = await open(one, `/weights/blobs/${sha256}`, "GET", range, signal);
        if (answer.status === 200 || answer.status === 206) return answer;
        answer.body.on("error", () => {}).destroy();
        throw new WeightsError("hub_failed", `${answer.url.host} answered ${answer.status}`, { retryable: true });
      },
    };
  }
}

export interface NeighbourAddress {
  readonly origin: string;
  /** Empty if sent by an earlier control plane. */
  readonly hostId: string;
}

/** Returns the options of a connection. Throws for a host that is no peer. */
export type DialNeighbour = (to: NeighbourAddress) => PeerOptions;

type NeighbourWays = ReturnType<typeof createNeighbourWays>;

const connectMs = 10_000;
const maxKept = 32;

export function createNeighbourWays(dial: DialNeighbour) {
  const pools = new Map<string, Pool>();

  const make = (to: NeighbourAddress): Pool =>
    new Pool(to.origin, {
      // Each connection uses the certificate current at its start.
      connect(options, done) {
        try {
          buildConnector({ ...dial(to), timeout: connectMs, maxCachedSessions: 0 })(options, done);
        } catch (error) {
          done(error as Error, null);
        }
      },
    });

  return {
    to({ origin, hostId }: NeighbourAddress) {
      const key = `${origin} ${hostId}`;
      const pool = pools.get(key) ?? make({ origin, hostId });
      // Move the most recently used one to the end.
      pools.delete(key);
      pools.set(key, pool);
      const [oldest] = pools;
      if (oldest && pools.size > maxKept) {
        pools.delete(oldest[0]);
        // Running transfers end first.
        void oldest[1].close();
      }
      return pool;
    },
    /** Cuts open connections. */
    async close() {
      const all = [...pools.values()];
      pools.clear();
      await Promise.all(all.map((pool) => pool.destroy()));
    },
  };
}
