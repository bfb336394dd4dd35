// The tiny stand-in of a model server as an image of nothing but Node, its libraries and one script: made in seconds, from
// no base image and no registry.
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const tree = join(import.meta.dirname, "../..");
const script = "test/fakes/tiny-runtime.ts";
/** The script and what it imports, at the same places below `/app`. */
const sources = [script, "proto/bearer-secret.ts", "proto/api-formats.ts"];

/** For a shell in it and what the tests type there. */
export const shellPrograms = ["sh", "bash", "stty", "sleep", "cat", "tr", "grep", "setsid"];

interface TinyOptions {
  /** Address of the engine, by default the machine's own. */
  readonly engine?: string | undefined;
  /** Programs of this machine that it has as well, such as `bash`. */
  readonly programs?: readonly string[];
}

export function importTinyImage(tag: string, { engine, programs = [] }: TinyOptions = {}): void {
  const folder = mkdtempSync(join(tmpdir(), "stoker-tiny-"));
  const root = join(folder, "root");
  const place = (source: string, target: string): void => {
    mkdirSync(dirname(join(root, target)), { recursive: true });
    copyFileSync(source, join(root, target));
  };
  try {
    for (const path of ["tmp", "proc", "sys", "dev", "etc", "models"]) mkdirSync(join(root, path), { recursive: true });
    // The engine gives the tmpfs that is mounted here the mode of what lies beneath.
    chmodSync(join(root, "tmp"), 0o1777);
    place(process.execPath, "/usr/local/bin/node");
    for (const library of librariesOf(process.execPath)) place(library, library);
    for (const name of programs) {
      const program = execFileSync("which", [name], { encoding: "utf8" }).trim();
      place(program, join("/bin", name));
      for (const library of librariesOf(program)) place(library, library);
    }
    for (const source of sources) place(join(tree, source), join("/app", source));
    const archive = join(folder, "root.tar");
    execFileSync("tar", ["-C", root, "--owner=0", "--group=0", "-cf", archive, "."]);
    const entry = ["node", "--disable-warning=ExperimentalWarning", join("/app", script)];
    const changes = [`ENTRYPOINT ${JSON.stringify(entry)}`, "ENV PATH=/usr/local/bin:/bin", "WORKDIR /app"];
    const args = ["import", ...changes.flatMap((change) => ["--change", change]), archive, tag];
    execFileSync("docker", [...(engine ? ["--host", engine] : []), ...args], { stdio: "pipe", timeout: 120_000 });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function librariesOf(program: string): readonly string[] {
  const listed = execFileSync("ldd", [program], { encoding: "utf8" });
  return [...listed.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map((match) => match[1] as string);
}
