// scripts/install.sh is sourced by `up` and `test` of every checkout, beside other checkouts on the same machine.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";

const script = join(import.meta.dirname, "../../../scripts/install.sh");

it("refuses to install through a node_modules that is a link, and leaves what it leads to as it is", () => {
  const folder = mkdtempSync(join(tmpdir(), "stoker-install-"));
  try {
    const [root, other, tools] = ["root", "other", "tools"].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    for (const one of [root, other, tools]) mkdirSync(one);
    writeFileSync(join(root, "package-lock.json"), "{}");
    writeFileSync(join(other, "package"), "of another checkout");
    symlinkSync(other, join(root, "node_modules"));
    writeFileSync(join(tools, "npm"), `#!/bin/sh\ntouch '${join(folder, "npm-ran")}'\n`, { mode: 0o755 });
    const { status, stderr } = spawnSync("sh", ["-c", `. '${script}'; install_packages`], {
      env: { PATH: `${tools}:${process.env["PATH"]}`, root, program: "up" },
      encoding: "utf8",
    });
    expect(stderr).toContain(`up: ${join(root, "node_modules")} is a link to ${other}`);
    expect(stderr).toContain("Remove the link");
    expect(status).toBe(1);
    expect(existsSync(join(folder, "npm-ran"))).toBe(false);
    expect(readFileSync(join(other, "package"), "utf8")).toBe("of another checkout");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

it("installs without the 300 MB of CUDA that onnxruntime-node would fetch, unless they are asked for", () => {
  const folder = mkdtempSync(join(tmpdir(), "stoker-install-"));
  try {
    writeFileSync(join(folder, "npm"), '#!/bin/sh\necho "$ONNXRUNTIME_NODE_INSTALL"\n', { mode: 0o755 });
    const asked = (more: Readonly<Record<string, string>>) =>
      spawnSync("sh", ["-c", `. '${script}'; run_npm ci`], {
        env: { PATH: `${folder}:${process.env["PATH"]}`, root: folder, ...more },
        encoding: "utf8",
      }).stdout;
    expect(asked({})).toBe("skip\n");
    expect(asked({ ONNXRUNTIME_NODE_INSTALL: "cuda12" })).toBe("cuda12\n");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

it("npm is told nothing in .npmrc that it does not know: it would warn at every `npx stoker`", () => {
  const lines = readFileSync(join(import.meta.dirname, "../../../.npmrc"), "utf8")
    .trim()
    .split("\n");
  expect(lines.map((line) => line.replace(/=.*/, "")).sort()).toEqual(["audit", "fund"]);
});
