// The images as they are built: their user, and their bill of materials against what they hold.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import type { Bom, Component } from "../../scripts/image/cyclonedx.ts";
import { schemaErrors } from "../fakes/cyclonedx.ts";
import { agentImage, docker, dockerHost, runtimeImage } from "./docker-host.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const host = await dockerHost("users and bills of materials of the images, and that an unpinned base is refused", [
  "runtime",
  "agent",
]);

/** Runs a shell command in a new container of the image, as the image's user. */
async function shell(image: string, command: string): Promise<string> {
  const args = ["run", "--rm", "--network", "none", "--entrypoint", "sh", image, "-c", command];
  return (await run("docker", args, { timeout: 120_000, maxBuffer: 64 * 1024 * 1024 })).stdout.trim();
}
const lines = (text: string) => text.split("\n").filter(Boolean).sort();
const withNested = (components: readonly Component[] = []): Component[] =>
  components.flatMap((component) => [component, ...withNested(component.components)]);

describe.skipIf(!host.ok).each([
  { image: runtimeImage, name: "stoker-runtime" },
  { image: agentImage, name: "stoker-agent" },
])("the image $name", ({ image, name }) => {
  const readBom = async () => {
    const file = await docker("inspect", "--format", '{{index .Config.Labels "stoker.sbom"}}', image);
    return shell(image, `cat ${file}`);
  };

  it("runs as user 2000, who can change nothing in /app", async () => {
    expect(await docker("inspect", "--format", "{{.Config.User}}", image)).toBe("2000:0");
    expect(await shell(image, "id -u")).toBe("2000");
    expect(await shell(image, "find /app /usr -writable ! -type l")).toBe("");
  });

  it("holds a valid bill of materials that names the image and its base", async () => {
    const text = await readBom();
    expect(await schemaErrors(text)).toBeNull();
    const { metadata } = JSON.parse(text) as Bom;
    expect(metadata.component).toMatchObject({
      type: "container",
      name,
      properties: [{ name: "stoker:base-image", value: "localhost/stoker-base:bookworm" }],
    });
  });

  it("lists exactly the npm and Debian packages inside", async () => {
    const { components } = JSON.parse(await readBom()) as Bom;
    const listed = (prefix: string) =>
      components
        .filter(({ purl }) => purl?.startsWith(prefix))
        .map((component) => `${component.name} ${component.version}`);
    const debian = lines(await shell(image, `dpkg-query --show --showformat '\${Package} \${Version}\\n'`));
    expect(debian.length).toBeGreaterThan(80);
    expect(listed("pkg:deb/debian/").sort()).toEqual(debian);

    const manifests = "find /app/node_modules -path '*/node_modules/*/package.json'";
    const script = `process.argv.slice(1).filter((p)=>/node_modules\\/(@[^/]+\\/)?[^/@]+\\/package.json$/.test(p)).forEach((p)=>{const {name,version}=require(p);console.log(name+" "+version)})`;
    const npm = [...new Set(lines(await shell(image, `node -e '${script}' $(${manifests})`)))];
    expect(npm.length).toBeGreaterThan(20);
    const fromNpm = components.filter(
      ({ purl }) => purl?.startsWith("pkg:npm/") && !purl.startsWith("pkg:npm/node-linux-"),
    );
    const named = fromNpm.filter(({ type }) => type === "library").map(({ purl = "" }) => purl);
    expect(named.map((purl) => decodeURIComponent(purl.slice(8)).replace(/@([^@]+)$/, " $1")).sort()).toEqual(npm);
    // What npm ci checked.
    for (const component of fromNpm.filter(({ type }) => type === "library"))
      expect(component.hashes, component.name).toEqual([
        { alg: "SHA-512", content: expect.stringMatching(/^[0-9a-f]{128}$/) },
      ]);
  });

  it("lists Node and each compiled file with the SHA-256 of the file inside", async () => {
    const { components } = JSON.parse(await readBom()) as Bom;
    const listed = withNested(components)
      .filter(({ type }) => type === "file")
      .map(({ name, hashes }) => `${hashes?.[0]?.content}  ${name}`);
    const find = "find /app/node_modules -type f \\( -name '*.so' -o -name '*.so.*' -o -name '*.node' \\)";
    expect(listed.sort()).toEqual(lines(await shell(image, `sha256sum /usr/local/bin/node $(${find})`)));
    const llama = listed.filter((line) => line.includes("libllama."));
    expect(llama.length > 0).toBe(name === "stoker-runtime");
    expect(components.some(({ purl }) => purl?.startsWith("pkg:github/ggml-org/llama.cpp@"))).toBe(llama.length > 0);
  });
});

describe.skipIf(!host.ok)("a build of Dockerfile.gpu by hand", () => {
  it("is refused when its base has no digest", async () => {
    await docker("tag", "localhost/stoker-base:bookworm", "stoker-unpinned-base:test");
    try {
      const base = [
        "--build-arg",
        "BASE_IMAGE=stoker-unpinned-base:test",
        "--build-arg",
        "NPM_REGISTRY=http://127.0.0.1:1",
      ];
      const options = { cwd: root, env: { ...process.env, DOCKER_BUILDKIT: "0" }, timeout: 120_000 };
      // Piped: the build needs no context up to the refusal.
      const build = run("sh", ["-c", `docker build --network none ${base.join(" ")} - <Dockerfile.gpu`], options);
      await expect(build).rejects.toMatchObject({
        stdout: expect.stringContaining("BASE_IMAGE is stoker-unpinned-base:test, which has no digest"),
      });
    } finally {
      await docker("rmi", "stoker-unpinned-base:test");
    }
  });

  it.each([
    ["debian:bookworm", /has no digest: give it as debian:bookworm@sha256:/],
    [`debian@sha256:${"z".repeat(64)}`, /64 hexadecimal digits/],
  ])("refuses the base %s through scripts/runtime-image.sh", async (base, reason) => {
    const build = run("sh", [join(root, "scripts/runtime-image.sh"), "--base", base]);
    await expect(build).rejects.toMatchObject({ stderr: expect.stringMatching(reason) });
  });
});
