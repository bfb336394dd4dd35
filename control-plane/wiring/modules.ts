/** A part of the control plane that runs between start and stop. */
export interface Module {
  /** Resolves when the part runs. */
  start?(): unknown;
  /** Resolves when the part has stopped. */
  stop?(): unknown;
}

/** Modules in the order of their start; the members of a group are independent of each other. */
export type Modules = readonly (Module | readonly Module[])[];

export async function startAll(modules: Modules): Promise<void> {
  for (const entry of modules) for (const module of [entry].flat()) await module.start?.();
}

/** Stops in reverse order, the members of a group at the same time. */
export async function stopAll(modules: Modules): Promise<void> {
  for (const entry of modules.toReversed()) await Promise.all([entry].flat().map((module) => module.stop?.()));
}

/** Loops that run from start until stop. */
export function looping(...loops: readonly { run(signal: AbortSignal): Promise<unknown> }[]): Module {
  const stopping = new AbortController();
  let running: Promise<unknown> | undefined;
  return {
    start() {
      running = Promise.all(loops.map((loop) => loop.run(stopping.signal)));
    },
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
