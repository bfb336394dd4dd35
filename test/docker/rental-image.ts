// An operator's image for rentals, made on the local base: an SSH server and sudo. Debian's mirror is asked once, at the build.
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { buildLimitMs } from "./docker-host.ts";
import { oncePerRun } from "./once.ts";

const run = promisify(execFile);
export const rentalImage = "stoker-rental:test";

/** Answers once it is there. */
export const buildRentalImage = (): Promise<void> => oncePerRun("rental", build);

async function build(): Promise<void> {
  const context = await mkdtemp(join(tmpdir(), "stoker-rental-"));
  try {
    const install = "apt-get install -y --no-install-recommends openssh-server sudo";
    const lines = [
      "FROM localhost/stoker-base:bookworm",
      `RUN apt-get update && ${install} && rm -rf /var/lib/apt/lists/*`,
    ];
    await writeFile(join(context, "Dockerfile"), lines.join("\n"));
    const options = {
      env: { ...process.env, DOCKER_BUILDKIT: "0" },
      timeout: buildLimitMs,
      maxBuffer: 16 * 1024 * 1024,
    };
    await run("docker", ["build", "--quiet", "--network", "host", "--tag", rentalImage, context], options);
  } finally {
    await rm(context, { recursive: true, force: true });
  }
}
