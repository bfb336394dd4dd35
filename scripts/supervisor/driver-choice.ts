import { readFileSync } from "node:fs";
import { request } from "node:http";
import { join, resolve } from "node:path";
import type { DriverChoice } from "./options.ts";
import { UpError } from "./up-error.ts";

/** Image of instances; scripts/runtime-image.sh builds it with this name. */
function runtimeImage(): string {
  const path = join(resolve(import.meta.dirname, "../.."), "package.json");
  const { version } = JSON.parse(readFileSync(path, "utf8")) as { version: string };
  return process.env["STOKER_RUNTIME_IMAGE"] ?? `stoker-runtime:${version}`;
}

/** Resolves `auto`: docker if an engine with the image is running. `why` explains a fallback, or is empty. */
export async function chooseDriver(choice: DriverChoice): Promise<{ driver: "docker" | "process"; why: string }> {
  if (choice === "process") return { driver: "process", why: "" };
  const image = runtimeImage();
  const status = await engineStatus(`/images/${encodeURIComponent(image)}/json`);
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

function engineStatus(path: string): Promise<number | undefined> {
  const host = process.env["DOCKER_HOST"] ?? "unix:///var/run/docker.sock";
  const where = host.startsWith("unix://")
    ? { socketPath: host.slice("unix://".length) }
    : { host: new URL(host.replace(/^tcp:/, "http:")).hostname, port: new URL(host.replace(/^tcp:/, "http:")).port };
  return new Promise((resolveStatus) => {
    const probe = request({ ...where, path, timeout: 3000 }, (answer) => {
      answer.resume();
      resolveStatus(answer.statusCode);
    });
    probe.once("timeout", () => probe.destroy(new Error("timeout")));
    probe.once("error", () => resolveStatus(undefined));
    probe.end();
  });
}
