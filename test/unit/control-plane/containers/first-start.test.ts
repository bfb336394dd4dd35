import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { readFirstStart } from "../../../../control-plane/containers/first-start.ts";
import { longer } from "../../../fakes/nightly.ts";

const cloudConfig = (value: object) => `#cloud-config\n${stringify(value)}`;
const script = (value: object) => readFirstStart(cloudConfig(value)).script;
const isShell = (text: string) => execFileSync("sh", ["-n"], { input: text, stdio: ["pipe", "pipe", "pipe"] });

describe("cloud_init_user_data", () => {
  it("that is a script runs unchanged, with any line endings", () => {
    expect(readFirstStart("#!/bin/bash\r\necho hi\r\n")).toEqual({ script: "#!/bin/bash\necho hi\n", mayOpen: true });
  });

  it("that is an empty cloud-config does nothing and adds no access", () => {
    for (const text of ["#cloud-config", "#cloud-config\n", "#cloud-config\n{}\n"])
      expect(readFirstStart(text).mayOpen).toBe(false);
    isShell(readFirstStart("#cloud-config").script);
  });

  it("never passes text of a cloud-config to the shell, whatever it contains", () => {
    const folder = mkdtempSync(join(tmpdir(), "stoker-first-start-"));
    try {
      fc.assert(
        fc.property(fc.string({ unit: "grapheme", maxLength: 60 }), (text) => {
          fc.pre(!text.includes("\0"));
          const file = join(folder, "said");
          const made = script({
            runcmd: [
              ["printf", "%s", text],
              [`sh`, "-c", `printf %s "$1" >${file}`, "sh", text],
            ],
          });
          execFileSync("sh", [], { input: made, stdio: ["pipe", "pipe", "pipe"] });
          expect(readFileSync(file, "utf8")).toBe(text);
        }),
        { numRuns: longer(10, 40) },
      );
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("writes files with their bytes, mode and in order, and reports which step failed", () => {
    const folder = mkdtempSync(join(tmpdir(), "stoker-first-start-"));
    try {
      const me = execFileSync("id", ["-un"]).toString().trim();
      const path = join(folder, "a b", "it's");
      const made = script({
        write_files: [
          { path, content: "$(date)\n", permissions: "0600", owner: me },
          { path, content: Buffer.from("more").toString("base64"), encoding: "b64", append: true, owner: me },
        ],
        runcmd: ["false", `cat '${path.replace("'", `'\\''`)}'`],
      });
      let said = "";
      try {
        execFileSync("sh", [], { input: made, stdio: ["pipe", "pipe", "pipe"] });
      } catch (error) {
        said = String((error as { stdout: Buffer }).stdout);
        expect((error as { status: number }).status).toBe(1);
      }
      expect(said).toBe("stoker: error: runcmd[0] failed\n$(date)\nmore");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("with a key grants its user access", () => {
    const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada's";
    for (const config of [
      { ssh_authorized_keys: [key] },
      { users: ["default", { name: "ada", ssh_authorized_keys: [key] }] },
    ]) {
      const made = readFirstStart(cloudConfig(config));
      expect(made.mayOpen).toBe(true);
      isShell(made.script);
    }
  });

  it.each([
    ["echo hi", /must start with #!/],
    ["#cloud-config\nruncmd: {", /not readable YAML/],
    ["#cloud-config\n- a\n", /must be a map/],
    [cloudConfig({ runcmd: "date" }), /runcmd must be a list/],
    [cloudConfig({ runcmd: [[]] }), /runcmd\[0\] is an empty command/],
    [cloudConfig({ users: [{ name: "root; reboot" }] }), /users\[0\]\.name is not a valid user name/],
    [cloudConfig({ users: [{ name: "ada", groups: ["a b"] }] }), /users\[0\]\.groups contains an invalid group name/],
    [cloudConfig({ users: [{ name: "ada", sudo: "ALL\nbob ALL" }] }), /one line per rule/],
    [cloudConfig({ ssh_authorized_keys: ["a\nb"] }), /not one line/],
    [cloudConfig({ write_files: [{ path: "etc/motd" }] }), /not an absolute path/],
    [cloudConfig({ write_files: [{ path: "/a", permissions: "rwx" }] }), /no mode/],
    [cloudConfig({ write_files: [{ path: "/a", owner: "a b" }] }), /user:group/],
    [cloudConfig({ write_files: [{ path: "/a", encoding: "gzip" }] }), /must be text\/plain or b64/],
    [cloudConfig({ write_files: [{ path: "/a", content: "x".repeat(80_000) }] }), /too long/],
    [`#!/bin/sh\n${"é".repeat(50_000)}`, /longer than/],
    [
      `#cloud-config\na: &a [1, 1, 1]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\nd: [*c, *c, *c, *c]\n`,
      /not readable YAML/,
    ],
  ])("is refused with the field and the reason: %#", (text, why) => {
    expect(() => readFirstStart(text)).toThrow(why);
  });
});
