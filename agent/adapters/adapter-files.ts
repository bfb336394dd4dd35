// Adapters as engines see them: one folder per instance, which a container has mounted before it starts, and in it one per adapter.
import { chmod, copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { adaptersTarget } from "../engines/container-plan.ts";

export const adapterConfig = "adapter_config.json";
export const adapterWeights = "adapter_model.safetensors";
const heldNote = "held.json";

/** Paths of what an engine is shown, and of nothing else that came with it. */
export interface AdapterSource {
  readonly weights: string;
  readonly config: string | undefined;
}

export type AdapterFiles = ReturnType<typeof createAdapterFiles>;

interface HeldAdapter {
  readonly engineIdentity: string;
  readonly commit: string;
}

/** `isContained`: engines run in containers, which see their folder at `adaptersTarget`. */
export function createAdapterFiles(folder: string, isContained: boolean) {
  // Inside the adapter's own folder: it goes with what it is about.
  const noteOf = (instanceId: string, id: string) => join(folder, instanceId, id, heldNote);
  return {
    /** Copies it, whole or not at all, under PEFT's names; returns the path as the instance's engine sees it. */
    async show({ weights, config }: AdapterSource, instanceId: string, id: string) {
      const own = join(folder, instanceId);
      await mkdir(own, { recursive: true, mode: 0o755 });
      const fresh = join(own, `${id}.new`);
      await rm(fresh, { recursive: true, force: true });
      await mkdir(fresh, { mode: 0o755 });
      // Independent of the agent's umask: the engine runs as another user.
      await chmod(fresh, 0o755);
      await copied(weights, join(fresh, adapterWeights));
      if (config !== undefined) await copied(config, join(fresh, adapterConfig));
      await rm(join(own, id), { recursive: true, force: true });
      await rename(fresh, join(own, id));
      return isContained ? `${adaptersTarget}/${id}` : join(own, id);
    },
    /**
     * Records that this engine process or container holds the adapter, and its commit, for the next agent. `show` clears the record.
     */
    async noteHeld(instanceId: string, id: string, held: HeldAdapter) {
      const note = noteOf(instanceId, id);
      await writeFile(`${note}.new`, JSON.stringify(held));
      await rename(`${note}.new`, note);
    },
    /** Empty if it was not recorded for that engine. */
    async heldCommit(instanceId: string, id: string, engineIdentity: string) {
      try {
        const held = JSON.parse(await readFile(noteOf(instanceId, id), "utf8")) as Partial<HeldAdapter>;
        return held.engineIdentity === engineIdentity && typeof held.commit === "string" ? held.commit : "";
      } catch {
        // Missing or partially written: unknown.
        return "";
      }
    },
    hide: (instanceId: string, id: string) => rm(join(folder, instanceId, id), { recursive: true, force: true }),
    async keep(instanceIds: ReadonlySet<string>) {
      for (const name of await readdir(folder).catch(() => []))
        if (!instanceIds.has(name)) await rm(join(folder, name), { recursive: true, force: true });
    },
  };
}

async function copied(from: string, to: string): Promise<void> {
  await copyFile(from, to);
  await chmod(to, 0o644);
}
