//! Encryption of connections, the same for every driver: whom to trust.

use anyhow::{Context, Result, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, KeyLogFile, RootCertStore, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;

/// Whom to trust.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Authorities in a PEM file; those of the system without it.
    pub ca: Option<PathBuf>,
    /// Anybody.
    pub insecure: bool,
}

impl Tls {
    /// Makes one library the cryptography of everything that leaves the choice to the process.
    pub fn install_provider() {
        // Fails where one was chosen already, which is as good.
        let _ = aws_lc_rs::default_provider().install_default();
    }

    /// The content of the PEM file, if one was named.
    pub fn authorities(&self) -> Result<Option<Vec<u8>>> {
        let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("--tls-ca {}", path.display()));
        self.ca.as_ref().map(read).transpose()
    }

    /// What rustls needs to know.
    pub fn config(&self) -> Result<Arc<ClientConfig>> {
        let builder = ClientConfig::builder();
        let mut config = if self.insecure {
            let anybody = Arc::new(Anybody(Arc::new(aws_lc_rs::default_provider())));
            builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth()
        } else {
            builder.with_root_certificates(self.roots()?).with_no_client_auth()
        };
        // Where SSLKEYLOGFILE says so, as `overhead capture --keylog` needs it.
        config.key_log = Arc::new(KeyLogFile::new());
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = self.authorities()? {
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                roots.add(certificate.context("--tls-ca: not a certificate in PEM form")?)?;
            }
        } else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        ensure!(
            !roots.is_empty(),
            "no certificate authority to trust: name one with --tls-ca FILE, or use --tls-insecure"
        );
        Ok(roots)
    }
}

/// Accepts every certificate, and checks that the server has its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
