// Generates proto/gen from proto/fleet/v1/*.proto. Usage: npm run generate. With a folder it writes there instead (scripts/suites/checks.ts).
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const gen = join(process.argv[2] ?? root, "proto/gen");
rmSync(gen, { recursive: true, force: true });
execFileSync(
  join(root, "node_modules/.bin/proto-loader-gen-types"),
  [
    "--importFileExtension=.ts",
    "--enums=String",
    "--longs=String",
    "--bytes=Buffer",
    "--defaults",
    "--oneofs",
    "--grpcLib=@grpc/grpc-js",
    `--outDir=${gen}`,
    "proto/fleet/v1/fleet.proto",
  ],
  { cwd: root, stdio: "inherit" },
);
