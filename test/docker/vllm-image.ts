// The installed vLLM (STOKER_VLLM_BIN) as an image with the entry point of the official one, on the base of our own images. Built here,
// because no registry has a build for processors.
import { type ChildProcess, execFile, type StdioOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { vllmPython, vllmVersion } from "../fakes/vllm-program.ts";
import { baseImage, type DockerHost, docker, dockerHost, loudly } from "./docker-host.ts";

const run = promisify(execFile);
const gib = 1024 ** 3;
/** Left free on the disk of the engine, beside the image. */
const spareBytes = 15 * gib;
const buildLimitMs = 25 * 60_000;
// TorchInductor compiles C++ at the start of the engine; the official image has compilers too.
const dockerfile = `FROM ${baseImage}
RUN apt-get update \\
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 python3-dev g++ libnuma1 \\
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
CMD ["python3"]
`;
const pythonImage = "stoker-vllm-python:test";

/** An image that was built before; by default each run builds one, in ten minutes, and removes it. */
const given = process.env["STOKER_TEST_VLLM_IMAGE"];

/** Name of the image; undefined: why it is missing was printed. The agent reads the version from its tag, so it has no owner. */
export async function vllmImage(promise: string): Promise<string | undefined> {
  if (given !== undefined) return given;
  const tag = `stoker-vllm:v${(await vllmVersion()).split("+")[0]}`;
  return (await buildImage(promise, tag)).ok ? tag : undefined;
}

export async function removeVllmImage(image: string): Promise<void> {
  if (image !== given) await docker("rmi", "--force", image);
}

async function buildImage(promise: string, tag: string): Promise<DockerHost> {
  const host = await dockerHost(promise, ["base"]);
  if (!host.ok) return host;
  const python = vllmPython();
  const folder = dirname(dirname(python));
  const { stdout } = await run("du", ["--summarize", "--block-size=1", folder]);
  const disk = statfsSync(await docker("info", "--format", "{{.DockerRootDir}}"));
  const neededBytes = Number.parseInt(stdout, 10) + spareBytes;
  if (disk.bavail * disk.bsize < neededBytes)
    return loudly(`its image needs ${Math.ceil(neededBytes / gib)} GiB of free disk`, promise);
  const env = { ...process.env, DOCKER_BUILDKIT: "0" };
  const build = run("docker", ["build", "--network", "host", "--tag", pythonImage, "-"], {
    env,
    timeout: buildLimitMs,
  });
  build.child.stdin?.end(dockerfile);
  await build;
  // A virtual environment has a link to the Python that made it.
  const link = (await run("readlink", ["--canonicalize", python])).stdout.trim();
  const version = "import sys; print(sys.implementation.cache_tag)";
  const [own, image] = await Promise.all([
    run(python, ["-c", version]).then(({ stdout }) => stdout.trim()),
    docker("run", "--rm", "--entrypoint", link, pythonImage, "-c", version).catch(() => "none"),
  ]);
  if (own !== image) return loudly(`its Python ${link} is not that of the base image (${image})`, promise);
  await importWith(folder, tag);
  return { ok: true };
}

/** Libraries that only GPUs need, loaded on demand: a quarter of the environment. */
const unused = [
  "triton",
  "libcudnn_*",
  "libcusolver*",
  "libnvrtc.alt*",
  "libnvrtc-builtins*",
  "libtorch_cuda_linalg.so",
];

/** Imports the files of the base with the environment, at its own path: its programs name their interpreter by its path. */
async function importWith(folder: string, tag: string): Promise<void> {
  const base = mkdtempSync(join(tmpdir(), "stoker-vllm-image-"));
  const container = await docker("create", pythonImage);
  const spawned = (program: string, args: readonly string[], stdio: StdioOptions) =>
    spawn(program, args, { timeout: buildLimitMs, stdio });
  try {
    const exported = spawned("docker", ["export", container], ["ignore", "pipe", "inherit"]);
    const unpacked = spawned("tar", ["--extract", "--file=-", "--directory", base], ["pipe", "ignore", "inherit"]);
    await piped(exported, unpacked);
    const all = ["--create", "--file=-", ...unused.map((name) => `--exclude=${name}`), "--mode=a+rX"];
    const places = ["--directory", base, ".", "--directory=/", folder.slice(1)];
    const packed = spawned("tar", [...all, ...places], ["ignore", "pipe", "inherit"]);
    const changes = [`ENV PATH=${folder}/bin:/usr/local/bin:/usr/bin:/bin`, 'ENTRYPOINT ["vllm", "serve"]'];
    const args = ["import", ...changes.flatMap((change) => ["--change", change]), "-", tag];
    await piped(packed, spawned("docker", args, ["pipe", "ignore", "inherit"]));
  } finally {
    await docker("rm", container);
    rmSync(base, { recursive: true, force: true });
  }
}

async function piped(from: ChildProcess, to: ChildProcess): Promise<void> {
  if (!from.stdout || !to.stdin) throw new Error("both are pipes");
  await Promise.all([pipeline(from.stdout, to.stdin), succeeds(from), succeeds(to)]);
}

async function succeeds(child: ChildProcess): Promise<void> {
  const [code, signal] = await once(child, "exit");
  if (code !== 0) throw new Error(`${child.spawnargs.slice(0, 2).join(" ")} ended with ${signal ?? code}`);
}
