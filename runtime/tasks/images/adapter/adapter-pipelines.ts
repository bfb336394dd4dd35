// The adapters that are loaded: each has graphs of its own where it changes them. Loads run one after the other, while pictures
// of the bare model and of other adapters are painted.
import { LoadFailure } from "../../../llama/load-failure.ts";
import { AdapterRefusal } from "../../../llama/lora/adapter-refusal.ts";
import type { AdapterHost } from "../../../server/engine.ts";
import { EngineRefusal } from "../../../server/text-engine.ts";
import type { AdaptedGraphs } from "../diffusion-graphs.ts";
import type { Borrow } from "../painter.ts";
import { adapterBytes, type ImageAdapter } from "./adapter-file.ts";

export interface AdapterPipelinesDeps {
  /** Throws AdapterRefusal, LoadFailure. */
  readonly open: (adapter: ImageAdapter) => Promise<AdaptedGraphs>;
  /** Maximum bytes of the graphs that only one adapter uses. */
  readonly ownBytes: () => Promise<number>;
  /** Memory limit of the process; 0 = unbounded. */
  readonly memoryBytes: number;
  readonly usedBytes: () => number;
}

interface Loaded {
  readonly graphs: AdaptedGraphs;
  users: number;
  isLeaving: boolean;
}

/** While a graph is opened its file's bytes are held beside the graph itself, and an adapter's beside its tensors. */
const copiesWhileLoading = 2;

export interface AdapterPipelines extends AdapterHost {
  readonly borrow: Borrow;
}

export function createAdapterPipelines(deps: AdapterPipelinesDeps): AdapterPipelines {
  const loaded = new Map<string, Loaded>();
  let loading: Promise<unknown> = Promise.resolve();

  async function load(name: string, path: string): Promise<void> {
    if (loaded.has(name)) throw new AdapterRefusal(`the adapter ${name} is loaded already; unload it first`);
    const adapter = { path, strength: 1 };
    const needBytes = ((await deps.ownBytes()) + (await adapterBytes(adapter))) * copiesWhileLoading;
    if (deps.memoryBytes > 0 && deps.usedBytes() + needBytes > deps.memoryBytes)
      throw new AdapterRefusal(
        `there is no memory for one adapter more: it takes ${megabytes(needBytes)} while it is loaded, and ${megabytes(deps.usedBytes())} of ${megabytes(deps.memoryBytes)} are in use; unload another one first`,
        { needsSpace: true },
      );
    loaded.set(name, { graphs: await deps.open(adapter), users: 0, isLeaving: false });
  }

  function closeIdle(one: Loaded): void {
    if (one.isLeaving && one.users === 0) one.graphs.close();
  }

  return {
    get adapters() {
      return [...loaded.keys()].sort();
    },
    async loadAdapter(name, path) {
      const mine = loading.then(() => load(name, path));
      loading = mine.catch(() => {});
      try {
        await mine;
      } catch (error) {
        throw refusalOf(error);
      }
    },
    unloadAdapter(name) {
      const one = loaded.get(name);
      if (!one) return false;
      loaded.delete(name);
      one.isLeaving = true;
      closeIdle(one);
      return true;
    },
    borrow(name) {
      const one = loaded.get(name);
      // It went while the request was on its way.
      if (!one) throw new EngineRefusal("adapter", `the adapter ${name} is not loaded on this instance`);
      one.users += 1;
      return {
        graphs: one.graphs,
        done() {
          one.users -= 1;
          closeIdle(one);
        },
      };
    },
  };
}

/** Converts an error; a failure that the adapter did not cause is reported as such and can be retried. */
function refusalOf(error: unknown): unknown {
  if (error instanceof AdapterRefusal)
    return new EngineRefusal(error.needsSpace ? "adapter_room" : "adapter", error.message, {
      param: "lora_path",
      cause: error,
    });
  if (error instanceof LoadFailure && error.message.startsWith("out of memory"))
    return new EngineRefusal("adapter_room", `the adapter's graphs: ${error.message}`, { cause: error });
  return error;
}

const megabytes = (bytes: number) => `${Math.ceil(bytes / 1e6)} MB`;
