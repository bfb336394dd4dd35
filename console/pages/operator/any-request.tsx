// The attempts of a request of any account.
import type { ReactNode } from "react";
import { useParam } from "../../app/router.tsx";
import { RequestDetails } from "../account/request.tsx";

export function AnyRequest(): ReactNode {
  const id = useParam("id");
  return <RequestDetails id={id} path={`/v1/admin/requests/${encodeURIComponent(id)}`} folder="/any-request-log" />;
}
