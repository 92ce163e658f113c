//! OTLP by gRPC. Requests are encoded when they are put into the queue, so bytes are all that goes through here.

use super::advice::advice;
use super::queue::Outgoing;
use super::retry::{Outcome, of_grpc, of_reply};
use super::target::Target;
use crate::ranks::Advice;
use gpuwhy_connect::grpc::{Raw, channel};
use gpuwhy_connect::{Connector, innermost};
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding;
use tonic::metadata::{MetadataKey, MetadataMap, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status};

pub(super) struct GrpcSender {
    client: Grpc<Channel>,
    metadata: MetadataMap,
    /// What the last answer told beside that it was taken.
    pub(super) advice: Option<Advice>,
}

impl GrpcSender {
    pub(super) fn new(target: &Target, connector: Connector) -> Result<GrpcSender, String> {
        let channel = channel(&target.url(), connector, target.timeout)?;
        let mut client = Grpc::new(channel).accept_compressed(CompressionEncoding::Gzip);
        if target.gzip {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        Ok(GrpcSender { client, metadata: metadata(target)?, advice: None })
    }

    pub(super) async fn send(&mut self, outgoing: &Outgoing) -> Outcome {
        if let Err(error) = self.client.ready().await {
            return Outcome::Later { after: None, message: innermost(&error) };
        }
        let mut request = Request::new(outgoing.body.clone());
        *request.metadata_mut() = self.metadata.clone();
        let path = PathAndQuery::from_static(outgoing.signal.method());
        match self.client.unary(request, path, Raw).await {
            Ok(reply) => {
                let reported = reply.metadata();
                self.advice = advice(|name| reported.get(name).and_then(|value| value.to_str().ok()));
                of_reply(reply.get_ref())
            }
            Err(status) => of_grpc(status.code(), status.details(), message(&status)),
        }
    }
}

fn metadata(target: &Target) -> Result<MetadataMap, String> {
    let mut metadata = MetadataMap::new();
    for (name, value) in &target.headers {
        let wrong = || format!("OTEL_EXPORTER_OTLP_HEADERS has '{name}', which is no header gRPC can send");
        let key = MetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes()).map_err(|_| wrong())?;
        let value = MetadataValue::try_from(value.as_str()).map_err(|_| wrong())?;
        metadata.append(key, value);
    }
    Ok(metadata)
}

/// What went wrong, with what was behind it.
fn message(status: &Status) -> String {
    let source = std::error::Error::source(status)
        .map_or_else(String::new, |source| format!(": {}", innermost(source)));
    format!("{:?} {}{source}", status.code(), status.message())
}
