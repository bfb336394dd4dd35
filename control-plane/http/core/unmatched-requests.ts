// Requests that no route handles: counted as one route, limited per address, and refused in the dialect of their path.
import type { FastifyError, FastifyReply, FastifyRequest } from "fastify";
import type { AddressLimits } from "../connections/address-limits.ts";
import type { Client } from "../connections/client-address.ts";
import { apiHeaders } from "../connections/secure-headers.ts";
import { type Dialect, errorBody, type Refusal } from "../errors/error-body.ts";
import { methodNotAllowed, routeNotFound } from "../errors/errors.ts";
import { refusalOf, renderError } from "../errors/render-error.ts";
import type { RouteMeter } from "./edge-metrics.ts";
import { pairs } from "./endpoint.ts";
import type { KnownPaths } from "./known-paths.ts";
import { RequestState, type StateDeps } from "./request-state.ts";

export class UnmatchedRequests {
  readonly #edge: StateDeps & { readonly addresses: AddressLimits };
  readonly #known: KnownPaths;
  readonly #meter: RouteMeter;

  constructor(edge: StateDeps & { readonly addresses: AddressLimits }, known: KnownPaths) {
    this.#edge = edge;
    this.#known = known;
    this.#meter = edge.metrics.meter("_any", "_unknown");
  }

  /** The router could not read the URL. No hook has run, and the request does not consider trusted proxies. */
  refuseUrl(error: FastifyError, request: FastifyRequest, reply: FastifyReply, { address, isSecure }: Client): void {
    reply.headers(pairs(apiHeaders(isSecure)));
    const state = this.#stateOf(request, reply);
    state.refusal = this.#limit(address) ?? refusalOf(error);
    sendRefusal(state.refusal, request, reply, state);
  }

  /** Sends 405 with the methods that the path has, or 404 with the nearest route. */
  refusePath(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const { method, originalUrl } = request;
    const limited = this.#limit(request.ip);
    const other = this.#known.otherMethods(method, originalUrl);
    const nearest = other || limited ? undefined : this.#known.nearest(method, originalUrl);
    const state = this.#stateOf(request, reply, (other ?? nearest)?.dialect);
    if (other && !limited) reply.header("allow", other.allowed);
    const refusal = limited ?? refusalOf(other ? methodNotAllowed(method, other.allowed) : routeNotFound(nearest));
    state.refusal = refusal;
    if (refusal.code !== "route_not_found") {
      sendRefusal(refusal, request, reply, state);
      return reply;
    }
    // Every surface has this `detail`; ElevenLabs' shape has no other member for the message.
    const dialect = state.dialect === "voices" ? "service" : state.dialect;
    const body = { ...errorBody(refusal, dialect, request.id), detail: "Not Found" };
    return reply.code(404).headers(pairs(state.headers())).send(body);
  }

  /** Counts the request; returns the refusal of a client that sent too many. */
  #limit(address: string): Refusal | undefined {
    try {
      this.#edge.addresses.take(address);
      return undefined;
    } catch (error) {
      return refusalOf(error);
    }
  }

  #stateOf(request: FastifyRequest, reply: FastifyReply, dialect: Dialect = "service"): RequestState {
    return new RequestState(this.#edge, this.#meter, dialect, request.id, request.headers, reply.raw);
  }
}

export function sendRefusal(
  refusal: Refusal,
  request: FastifyRequest,
  reply: FastifyReply,
  state: RequestState | null = request.state,
): void {
  const { status, headers, body } = renderError(refusal, state?.dialect ?? "service", request.id);
  // A client that exceeds the limit may continue sending without end.
  const end = refusal.code === "body_too_large" ? ["connection", "close"] : [];
  reply
    .code(status)
    .headers(pairs([...headers, ...end, ...(state?.headers() ?? [])]))
    .send(body);
}
