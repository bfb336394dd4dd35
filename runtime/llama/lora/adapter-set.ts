// The adapters that are loaded: each is a context of its own over the shared weights. Loads of all adapters run one after
// the other, while streams of the bare model and of other adapters go on.
import type { LlamaContext } from "node-llama-cpp";
import { adapterFile } from "./adapter-file.ts";
import { AdapterRefusal } from "./adapter-refusal.ts";
import type { BaseModel } from "./convert-peft.ts";

export interface AdapterDeps {
  readonly base: BaseModel;
  openContext(file: string): Promise<LlamaContext>;
  /** Requests may use the context as `group` from now on. */
  opened(group: string, context: LlamaContext): void;
  /** Resolves when it is no longer used. */
  closed(group: string): Promise<void>;
}

export class AdapterSet {
  readonly #deps: AdapterDeps;
  readonly #loaded = new Map<string, { readonly group: string; readonly context: LlamaContext }>();
  #loads = 0;
  #loading: Promise<unknown> = Promise.resolve();

  constructor(deps: AdapterDeps) {
    this.#deps = deps;
  }

  get names(): readonly string[] {
    return [...this.#loaded.keys()].sort();
  }

  /** Throws AdapterRefusal. */
  load(name: string, path: string): Promise<void> {
    const load = this.#loading.then(() => this.#load(name, path));
    this.#loading = load.catch(() => {});
    return load;
  }

  /** The group of sequences that serve it; undefined when it is not loaded. */
  groupOf(name: string): string | undefined {
    return this.#loaded.get(name)?.group;
  }

  /** False when it was not loaded. Its memory is free once the requests that use it have ended. */
  unload(name: string): boolean {
    const loaded = this.#loaded.get(name);
    if (!loaded) return false;
    this.#loaded.delete(name);
    void this.#deps.closed(loaded.group).then(() => loaded.context.dispose());
    return true;
  }

  async #load(name: string, path: string): Promise<void> {
    if (this.#loaded.has(name)) throw new AdapterRefusal(`the adapter ${name} is loaded already; unload it first`);
    const file = await adapterFile(path, this.#deps.base);
    try {
      const context = await this.#deps.openContext(file.path);
      // An adapter of that name may still be finishing its last requests.
      const group = `${name}#${++this.#loads}`;
      this.#deps.opened(group, context);
      this.#loaded.set(name, { group, context });
    } finally {
      await file.remove();
    }
  }
}
