// Original file: proto/fleet/v1/fleet.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { AgentMessage as _stoker_fleet_v1_AgentMessage, AgentMessage__Output as _stoker_fleet_v1_AgentMessage__Output } from '../../../stoker/fleet/v1/AgentMessage.ts';
import type { Certificate as _stoker_fleet_v1_Certificate, Certificate__Output as _stoker_fleet_v1_Certificate__Output } from '../../../stoker/fleet/v1/Certificate.ts';
import type { ControlMessage as _stoker_fleet_v1_ControlMessage, ControlMessage__Output as _stoker_fleet_v1_ControlMessage__Output } from '../../../stoker/fleet/v1/ControlMessage.ts';
import type { EnrollRequest as _stoker_fleet_v1_EnrollRequest, EnrollRequest__Output as _stoker_fleet_v1_EnrollRequest__Output } from '../../../stoker/fleet/v1/EnrollRequest.ts';
import type { RenewRequest as _stoker_fleet_v1_RenewRequest, RenewRequest__Output as _stoker_fleet_v1_RenewRequest__Output } from '../../../stoker/fleet/v1/RenewRequest.ts';

export interface FleetClient extends grpc.Client {
  Enroll(argument: _stoker_fleet_v1_EnrollRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  Enroll(argument: _stoker_fleet_v1_EnrollRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  Enroll(argument: _stoker_fleet_v1_EnrollRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  Enroll(argument: _stoker_fleet_v1_EnrollRequest, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  enroll(argument: _stoker_fleet_v1_EnrollRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  enroll(argument: _stoker_fleet_v1_EnrollRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  enroll(argument: _stoker_fleet_v1_EnrollRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  enroll(argument: _stoker_fleet_v1_EnrollRequest, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  
  Renew(argument: _stoker_fleet_v1_RenewRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  Renew(argument: _stoker_fleet_v1_RenewRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  Renew(argument: _stoker_fleet_v1_RenewRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  Renew(argument: _stoker_fleet_v1_RenewRequest, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  renew(argument: _stoker_fleet_v1_RenewRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  renew(argument: _stoker_fleet_v1_RenewRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  renew(argument: _stoker_fleet_v1_RenewRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  renew(argument: _stoker_fleet_v1_RenewRequest, callback: grpc.requestCallback<_stoker_fleet_v1_Certificate__Output>): grpc.ClientUnaryCall;
  
  Session(metadata: grpc.Metadata, options?: grpc.CallOptions): grpc.ClientDuplexStream<_stoker_fleet_v1_AgentMessage, _stoker_fleet_v1_ControlMessage__Output>;
  Session(options?: grpc.CallOptions): grpc.ClientDuplexStream<_stoker_fleet_v1_AgentMessage, _stoker_fleet_v1_ControlMessage__Output>;
  session(metadata: grpc.Metadata, options?: grpc.CallOptions): grpc.ClientDuplexStream<_stoker_fleet_v1_AgentMessage, _stoker_fleet_v1_ControlMessage__Output>;
  session(options?: grpc.CallOptions): grpc.ClientDuplexStream<_stoker_fleet_v1_AgentMessage, _stoker_fleet_v1_ControlMessage__Output>;
  
}

export interface FleetHandlers extends grpc.UntypedServiceImplementation {
  Enroll: grpc.handleUnaryCall<_stoker_fleet_v1_EnrollRequest__Output, _stoker_fleet_v1_Certificate>;
  
  Renew: grpc.handleUnaryCall<_stoker_fleet_v1_RenewRequest__Output, _stoker_fleet_v1_Certificate>;
  
  Session: grpc.handleBidiStreamingCall<_stoker_fleet_v1_AgentMessage__Output, _stoker_fleet_v1_ControlMessage>;
  
}

export interface FleetDefinition extends grpc.ServiceDefinition {
  Enroll: MethodDefinition<_stoker_fleet_v1_EnrollRequest, _stoker_fleet_v1_Certificate, _stoker_fleet_v1_EnrollRequest__Output, _stoker_fleet_v1_Certificate__Output>
  Renew: MethodDefinition<_stoker_fleet_v1_RenewRequest, _stoker_fleet_v1_Certificate, _stoker_fleet_v1_RenewRequest__Output, _stoker_fleet_v1_Certificate__Output>
  Session: MethodDefinition<_stoker_fleet_v1_AgentMessage, _stoker_fleet_v1_ControlMessage, _stoker_fleet_v1_AgentMessage__Output, _stoker_fleet_v1_ControlMessage__Output>
}
