// Generates proto/gen from proto/fleet/v1/*.proto. Usage: npm run generate. CI fails if this changes the tree.
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
rmSync(join(root, "proto/gen"), { recursive: true, force: true });
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
    "--outDir=proto/gen",
    "proto/fleet/v1/fleet.proto",
  ],
  { cwd: root, stdio: "inherit" },
);
