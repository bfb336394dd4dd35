import type { FastifyRequest } from "fastify";

/** Scheme and host for links to our own pages: as the operator set it, else as this client reached us. */
export function originOf(publicUrl: string | undefined, request: FastifyRequest): string {
  return publicUrl ?? `${request.protocol}://${request.host}`;
}
