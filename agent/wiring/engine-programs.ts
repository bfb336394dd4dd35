// Engines that are installed on this host as programs, for the process driver.
import { readdirSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { type EngineVersion, readVersion } from "../../proto/engine-version.ts";
import type { AgentConfig } from "../config.ts";
import type { HostFacts } from "../engines/host-facts.ts";

export function enginePrograms({
  enginePrograms: paths,
}: Pick<AgentConfig, "enginePrograms">): NonNullable<HostFacts["enginePrograms"]> {
  const { vllm, llamacpp } = paths;
  return {
    ...(vllm === undefined ? {} : { vllm: { path: vllm, version: installedVersion(vllm, "vllm") } }),
    ...(llamacpp === undefined ? {} : { llamacpp: { path: llamacpp, version: undefined } }),
  };
}

/** Version in the Python environment of a program; to run it would take half a minute. Undefined: not found. */
function installedVersion(program: string, name: string): EngineVersion | undefined {
  const form = new RegExp(`^${name}(?:_[a-z]+)?-(\\d[^-]*)\\.dist-info$`);
  try {
    const libraries = join(dirname(realpathSync(program)), "../lib");
    for (const python of readdirSync(libraries))
      for (const entry of readdirSync(join(libraries, python, "site-packages"))) {
        const version = readVersion(form.exec(entry)?.[1] ?? "");
        if (version) return version;
      }
  } catch {
    // Installed in another way.
  }
  return undefined;
}
