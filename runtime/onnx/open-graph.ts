// Opens graphs for the tasks: checked first, on the best provider that can be had, with the granted threads.

import { createHash } from "node:crypto";
import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { RuntimeConfig } from "../config.ts";
import { LoadFailure } from "../llama/load-failure.ts";
import { checkGraph } from "./check-graph.ts";
import type { ModelFolder } from "./model-folder.ts";
import { type NearSession, openNear } from "./near-session.ts";
import type { Session } from "./session.ts";
import { SessionHost } from "./session-host.ts";

export interface GraphOptions extends Pick<RuntimeConfig, "threads" | "memoryBytes" | "provider" | "graphCacheDir"> {
  readonly hasGpu: boolean;
}

export interface Lanes {
  readonly sessions: readonly [Session, ...Session[]];
  readonly near: NearSession | undefined;
}

/** Part of a memory limit from which the arena must not double. */
const tightShare = 4;
const cacheVersion = 1;
/** A second copy of a graph up to so large is worth its memory. */
const maxCopiedBytes = 128 * 1024 * 1024;

export class Graphs {
  readonly warnings: string[] = [];
  readonly #host = new SessionHost();
  readonly #moreHosts: SessionHost[] = [];
  readonly #near: NearSession[] = [];
  readonly #options: GraphOptions;
  #provider = "cpu";

  constructor(options: GraphOptions) {
    this.#options = options;
  }

  get provider(): string {
    return this.#provider;
  }

  /** For a library that opens its graphs itself. */
  get granted(): { readonly threads: number; readonly hasGpu: boolean } {
    const { threads, provider, hasGpu } = this.#options;
    return { threads, hasGpu: chooseProviders(provider, hasGpu)[0] !== "cpu" };
  }

  /** Stores the provider of a model, and adds a warning if it is not the first that was tried. */
  opened(tried: readonly string[], used: string, refused: readonly string[]): void {
    this.#provider = used;
    const warning = fallbackWarning(tried, used, refused);
    if (warning !== undefined && !this.warnings.includes(warning)) this.warnings.push(warning);
  }

  /** `graph`: a path relative to the folder. `isCached` false: nothing is kept for the next start. Throws LoadFailure. */
  async open(folder: ModelFolder, graph: string, { isCached = true } = {}): Promise<Session> {
    const path = folder.path(graph);
    await checkGraph(path, folder.root);
    return this.#open(path, this.#host, this.#options.threads, isCached);
  }

  /**
   * The same with copies of a small graph on a CPU. A second lane, on a thread and with half of the cores of its own: what
   * the cores lose while the threads of one run wait for each other, and while answers go out, the other run uses; the
   * first has all granted threads. And one on the server's own thread, for runs that are over before a message to another
   * thread comes back. Throws LoadFailure.
   */
  async openLanes(folder: ModelFolder, graph: string): Promise<Lanes> {
    const path = folder.path(graph);
    const { hasAllWeights } = await checkGraph(path, folder.root);
    const { threads, memoryBytes } = this.#options;
    const whole = await this.#open(path, this.#host, threads);
    const { size } = await stat(path);
    const isSmall = whole.provider === "cpu" && hasAllWeights && size <= maxCopiedBytes;
    const fitsMemory = (copies: number) => isSmall && (memoryBytes === 0 || memoryBytes >= size * tightShare * copies);
    const sessions: [Session, ...Session[]] = [whole];
    if (threads > 1 && fitsMemory(2)) {
      const host = new SessionHost();
      this.#moreHosts.push(host);
      sessions.push(await this.#open(path, host, Math.floor(threads / 2)));
    }
    return { sessions, near: fitsMemory(3) ? await this.#openNear(path) : undefined };
  }

  async close(): Promise<void> {
    await Promise.all([this.#host, ...this.#moreHosts, ...this.#near].map((one) => one.close()));
  }

  /** Without it everything is served as well: what it cannot be opened for is a warning. */
  async #openNear(path: string): Promise<NearSession | undefined> {
    const { threads } = this.#options;
    const optimizedPath = await this.#optimizedPath(path, ["cpu"], threads);
    const options = { path, providers: ["cpu"], threads, spins: threads > 1, isMemoryTight: false, optimizedPath };
    try {
      const near = await openNear(options);
      this.#near.push(near);
      return near;
    } catch (error) {
      this.warnings.push(`lone short texts are not served faster: ${graphFailure(path, error).message}`);
      return undefined;
    }
  }

  async #open(path: string, host: SessionHost, threads: number, isCached = true): Promise<Session> {
    const { memoryBytes, provider, hasGpu } = this.#options;
    const providers = chooseProviders(provider, hasGpu);
    const { size } = await stat(path);
    const isMemoryTight = memoryBytes > 0 && memoryBytes < size * tightShare;
    const optimizedPath = isCached ? await this.#optimizedPath(path, providers, threads) : undefined;
    try {
      const options = { path, providers, threads, spins: false, isMemoryTight, optimizedPath };
      const { session, refused } = await host.open(options);
      this.opened(providers, session.provider, refused);
      return session;
    } catch (error) {
      throw graphFailure(path, error);
    }
  }

  /** Named by what it was made from and for. Never for what the GPU's provider compiles by itself. */
  async #optimizedPath(path: string, providers: readonly string[], threads: number): Promise<string | undefined> {
    const { graphCacheDir: folder } = this.#options;
    if (folder === undefined || providers[0] !== "cpu") return undefined;
    const { size, mtimeMs } = await stat(path);
    const made = JSON.stringify([cacheVersion, path, size, mtimeMs, threads, process.arch]);
    try {
      await mkdir(folder, { recursive: true });
    } catch {
      return undefined;
    }
    return join(folder, `${createHash("sha256").update(made).digest("hex").slice(0, 32)}`);
  }
}

const causes: readonly (readonly [pattern: RegExp, cause: string, advice: string])[] = [
  [/bad_alloc|out of memory|failed to allocate/i, "out of memory", "give the instance more memory"],
  [
    /is not a registered function|no op registered|unsupported model IR|opset/i,
    "unsupported operators",
    "this build of onnxruntime does not know them; export the model for an older operator set",
  ],
  [
    /protobuf parsing failed|INVALID_PROTOBUF|not a valid model/i,
    "damaged ONNX file",
    "the file is broken or ends too early; download it again",
  ],
  [/cannot find module|libonnxruntime/i, "no onnxruntime for this machine", "install onnxruntime-node's package"],
];

function graphFailure(path: string, error: unknown): LoadFailure {
  const message = (error instanceof Error ? error.message : String(error)).replace(/\s+/g, " ").trim().slice(0, 300);
  const found = causes.find(([pattern]) => pattern.test(message));
  if (found) return new LoadFailure(found[1], `${found[2]} (${message})`, { cause: error });
  return new LoadFailure("model could not be loaded", `${path}: ${message}`, { cause: error });
}

type Provider = "cpu" | "cuda" | "tensorrt" | "webgpu";

/** `auto`: the GPU where one was granted. TensorRT compiles for minutes and WebGPU is an experiment, so both are used only on request. */
export function chooseProviders(wanted: "auto" | Provider, hasGpu: boolean): readonly Provider[] {
  switch (wanted) {
    case "auto":
      return hasGpu ? ["cuda", "cpu"] : ["cpu"];
    case "tensorrt":
      return ["tensorrt", "cuda", "cpu"];
    case "cpu":
      return ["cpu"];
    default:
      return [wanted, "cpu"];
  }
}

/** One sentence per model server, for /health and the log; undefined when the best one runs. `refused`: `cuda: why`. */
export function fallbackWarning(
  tried: readonly string[],
  used: string,
  refused: readonly string[],
): string | undefined {
  if (used === tried[0]) return undefined;
  const why = refused.map((text) => text.replace(/\s+/g, " ").trim().slice(0, 200)).join("; ");
  return `the model runs on ${used} and not on ${tried[0]}, which could not be used (${why}); answers are right and slower`;
}
