// Writes the listening address for the parent process, atomically.
import { rename, writeFile } from "node:fs/promises";

export interface Address {
  readonly host: string;
  readonly port: number;
  readonly pid: number;
  readonly instance_id: string;
}

export async function writeAddressFile(path: string, address: Address): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  await writeFile(temporary, `${JSON.stringify(address)}\n`, { mode: 0o600 });
  await rename(temporary, path);
}
