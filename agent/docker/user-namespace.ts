import { createEngineClient } from "./engine-client.ts";

/** Returns the host user of root in a container: `nobody` if the engine has user namespaces. Throws DriverError without an engine. */
export async function rootOf(signal: AbortSignal, socketPath?: string): Promise<"nobody" | "host"> {
  const info = await createEngineClient(socketPath).call(
    signal,
    async (docker) => (await docker.info()) as { SecurityOptions?: readonly string[] },
  );
  const options = info.SecurityOptions ?? [];
  return options.some((one) => /^name=(userns|rootless)/.test(one)) ? "nobody" : "host";
}
