import { readFileSync } from "node:fs";
import { request } from "node:http";
import { join, resolve } from "node:path";
import type { DriverChoice } from "./options.ts";
import { UpError } from "./up-error.ts";

/** The image agents start instances from; scripts/runtime-image.sh builds it under this name. */
function runtimeImage(): string {
  const path = join(resolve(import.meta.dirname, "../.."), "package.json");
  const { version } = JSON.parse(readFileSync(path, "utf8")) as { version: string };
  return process.env["STOKER_RUNTIME_IMAGE"] ?? `stoker-runtime:${version}`;
}

/** Resolves `auto`: docker where an engine answers and the image is there. `why` is a line for the operator, or empty. */
export async function chooseDriver(choice: DriverChoice): Promise<{ driver: "docker" | "process"; why: string }> {
  if (choice === "process") return { driver: "process", why: "" };
  const image = runtimeImage();
  const status = await askEngine(`/images/${encodeURIComponent(image)}/json`);
  if (status === 200) return { driver: "docker", why: "" };
  const lack =
    status === undefined
      ? "no Docker engine answers"
      : status === 404
        ? `the Docker engine has no image ${image} (scripts/runtime-image.sh builds it)`
        : `the Docker engine answered ${status}`;
  if (choice === "docker") throw new UpError(`--driver docker cannot be used: ${lack}.`);
  return { driver: "process", why: `Model servers run as plain processes, which is meant for development: ${lack}.` };
}

function askEngine(path: string): Promise<number | undefined> {
  const host = process.env["DOCKER_HOST"] ?? "unix:///var/run/docker.sock";
  const where = host.startsWith("unix://")
    ? { socketPath: host.slice("unix://".length) }
    : { host: new URL(host.replace(/^tcp:/, "http:")).hostname, port: new URL(host.replace(/^tcp:/, "http:")).port };
  return new Promise((resolveStatus) => {
    const ask = request({ ...where, path, timeout: 3000 }, (answer) => {
      answer.resume();
      resolveStatus(answer.statusCode);
    });
    ask.once("timeout", () => ask.destroy(new Error("timeout")));
    ask.once("error", () => resolveStatus(undefined));
    ask.end();
  });
}
