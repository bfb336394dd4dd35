import { loadSync } from "@grpc/proto-loader";

/** The service between control planes and agents, as both sides read its messages: enums and 64-bit integers are strings, bytes are buffers. */
export const fleetDefinition = loadSync("fleet/v1/fleet.proto", {
  includeDirs: [import.meta.dirname],
  enums: String,
  longs: String,
  bytes: Buffer,
  defaults: true,
  oneofs: true,
});
