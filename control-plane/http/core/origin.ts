import type { FastifyRequest } from "fastify";

/** Returns scheme and host for links to our own pages: as configured, otherwise as this client reached us. */
export function originOf(publicUrl: string | undefined, request: FastifyRequest): string {
  return publicUrl ?? `${request.protocol}://${request.host}`;
}
